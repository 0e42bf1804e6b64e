"""Federated averaging as FLARE's documentation writes it: recipe and simulator. `python … FOLDER`."""

import json
import sys
from pathlib import Path

import torch
from nvflare.app_opt.pt.recipes.fedavg import FedAvgRecipe
from nvflare.recipe import SimEnv
from safetensors.torch import save_file

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from small_job import network, settings  # noqa: E402

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    said = settings(str(folder))
    torch.save(network(str(folder)).state_dict(), folder / "initial.pt")
    recipe = FedAvgRecipe(
        name="plain",
        model={"class_path": "small_network.Network", "args": said["network"]},
        initial_ckpt=str(folder / "initial.pt"),
        min_clients=len(said["clients"]),
        num_rounds=said["rounds"],
        train_script=str(HERE / "flare_client.py"),
        train_args=f"--folder {folder} --plain {HERE}",
    )
    clients = len(said["clients"])
    recipe.execute(SimEnv(num_clients=clients, workspace_root=str(folder / "sim")))
    [written] = (folder / "sim").rglob("FL_global_model.pt")
    final = torch.load(written, weights_only=True)["model"]
    save_file(
        {name: torch.as_tensor(value).contiguous() for name, value in final.items()},
        folder / "final.safetensors",
    )
    told = [json.loads(path.read_text()) for path in folder.glob("times-*.json")]
    (folder / "times.json").write_text(json.dumps([min(round_) for round_ in zip(*told, strict=True)]))
