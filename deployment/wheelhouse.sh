#!/bin/sh
# Everything that a machine without a network installs dermfed from: wheels at the versions that were tested, units and
# container file of the node, and the digests of all.
#   sh deployment/wheelhouse.sh node wheelhouse      in a checkout, on a machine with the same Python, system and processor
# PyPI's torch for Linux brings CUDA, some gigabytes. Without a GPU take it from PyTorch's own index:
#   PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu sh deployment/wheelhouse.sh node wheelhouse
set -eu
extras=${1:?name the extras: node, serve, or several with commas}
out=${2:?name the folder that is to be made}
cd "$(dirname "$0")/.."
if [ -e "$out" ]; then
  echo "$out is there already; name another folder, so that nothing old is in it" >&2
  exit 2
fi
python3 -m pip wheel --quiet --wheel-dir "$out" --constraint constraints.txt ".[$extras]"
cp constraints.txt deployment/dermfed-node.service deployment/dermfed-coordinator.service deployment/Containerfile.node "$out/"
cd "$out"
sha256sum ./*.whl ./*.service constraints.txt Containerfile.node > SHA256SUMS
echo "$(ls ./*.whl | wc -l) wheels in $out. Tell this digest by another way than the folder takes:"
sha256sum SHA256SUMS
