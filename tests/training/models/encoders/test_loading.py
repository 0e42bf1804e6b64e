"""Files in the names of others: made-up weights of the same names and shapes, a few layers of few features.

The names and shapes are those that the authors' own code saves; PanDerm's forward pass is written out.
"""

import pytest
import torch
from safetensors.torch import save_file

from tests.closeness import assert_close_in_norm
from training.errors import JobError
from training.models import ModelConfig, build_model
from training.models.encoder_files import IMAGENET
from training.models.encoder_inspection import inspect
from training.models.encoder_sources import Source

WIDTH, DEPTH, PATCH, SIZE = 32, 2, 8, 32
TOKENS = (SIZE // PATCH) ** 2
SMALL = {"depth": DEPTH, "embed_dim": WIDTH, "num_heads": 2, "patch_size": PATCH, "img_size": SIZE}


def drawn(shapes):
    random = torch.Generator().manual_seed(3)
    return {name: torch.randn(shape, generator=random) * 0.1 for name, shape in shapes.items()}


def linear(name, inputs, outputs):
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def norm(name):
    return {f"{name}.weight": (WIDTH,), f"{name}.bias": (WIDTH,)}


def blocks(one):
    return {f"blocks.{number}.{name}": shape for number in range(DEPTH) for name, shape in one.items()}


def mlp(first, second):
    return {**linear(first, WIDTH, 4 * WIDTH), **linear(second, 4 * WIDTH, WIDTH)}


PATCHES = {"patch_embed.proj.weight": (WIDTH, 3, PATCH, PATCH), "patch_embed.proj.bias": (WIDTH,)}
VIT_BLOCK = {
    **norm("norm1"),
    **linear("attn.qkv", WIDTH, 3 * WIDTH),
    **linear("attn.proj", WIDTH, WIDTH),
    **norm("norm2"),
    **mlp("mlp.fc1", "mlp.fc2"),
}
SCALES = {"ls1.gamma": (WIDTH,), "ls2.gamma": (WIDTH,)}
DINOV2 = {
    "cls_token": (1, 1, WIDTH),
    "pos_embed": (1, TOKENS + 1, WIDTH),
    "mask_token": (1, WIDTH),
    **PATCHES,
    **blocks({**VIT_BLOCK, **SCALES}),
    **norm("norm"),
}
DINOV3 = {
    "cls_token": (1, 1, WIDTH),
    "storage_tokens": (1, 4, WIDTH),
    "mask_token": (1, WIDTH),
    **PATCHES,
    "rope_embed.periods": (4,),
    **blocks({**VIT_BLOCK, "attn.qkv.bias_mask": (3 * WIDTH,), **SCALES}),
    **norm("norm"),
}
PANDERM = {
    "cls_token": (1, 1, WIDTH),
    "pos_embed": (1, TOKENS + 1, WIDTH),
    **PATCHES,
    **blocks(
        {
            **norm("norm1"),
            "attn.qkv.weight": (3 * WIDTH, WIDTH),
            "attn.q_bias": (WIDTH,),
            "attn.v_bias": (WIDTH,),
            **linear("attn.proj", WIDTH, WIDTH),
            "gamma_1": (WIDTH,),
            "gamma_2": (WIDTH,),
            **norm("norm2"),
            **mlp("mlp.fc1", "mlp.fc2"),
        }
    ),
    **norm("norm"),
    **linear("head", WIDTH, 1000),
}
CLIP = {
    "positional_embedding": (7, WIDTH),
    "logit_scale": (),
    "visual.class_embedding": (WIDTH,),
    "visual.positional_embedding": (TOKENS + 1, WIDTH),
    "visual.proj": (WIDTH, 16),
    "visual.conv1.weight": (WIDTH, 3, PATCH, PATCH),
    **norm("visual.ln_pre"),
    **{
        f"visual.transformer.resblocks.{number}.{name}": shape
        for number in range(DEPTH)
        for name, shape in {
            **norm("ln_1"),
            "attn.in_proj_weight": (3 * WIDTH, WIDTH),
            "attn.in_proj_bias": (3 * WIDTH,),
            **linear("attn.out_proj", WIDTH, WIDTH),
            **norm("ln_2"),
            **mlp("mlp.c_fc", "mlp.c_proj"),
        }.items()
    },
    **norm("visual.ln_post"),
    "transformer.resblocks.0.ln_1.weight": (8,),
    "token_embedding.weight": (9, 8),
}
PANDERM_OPTIONS = {"use_abs_pos_emb": True, "use_rel_pos_bias": False, "global_pool": "token"}


def transformers_clip(tensors):
    """OpenAI's tensors under the names that transformers has for them; MONET's published file is so named."""
    plain = {
        "class_embedding": "embeddings.class_embedding",
        "positional_embedding": "embeddings.position_embedding.weight",
        "conv1.weight": "embeddings.patch_embedding.weight",
        "ln_pre.weight": "pre_layrnorm.weight",
        "ln_pre.bias": "pre_layrnorm.bias",
        "ln_post.weight": "post_layernorm.weight",
        "ln_post.bias": "post_layernorm.bias",
    }
    inner = {"ln_1": "layer_norm1", "ln_2": "layer_norm2", "attn.out_proj": "self_attn.out_proj"}
    inner |= {"mlp.c_fc": "mlp.fc1", "mlp.c_proj": "mlp.fc2"}
    found = {}
    for key, value in tensors.items():
        if not key.startswith("visual."):
            continue
        name = key.removeprefix("visual.")
        if name in plain:
            found[f"vision_model.{plain[name]}"] = value
        elif name == "proj":
            found["visual_projection.weight"] = value.T.contiguous()
        else:
            _, _, number, rest = name.split(".", 3)
            place = f"vision_model.encoder.layers.{number}"
            if rest.startswith("attn.in_proj_"):
                for letter, part in zip("qkv", value.chunk(3), strict=True):
                    what = rest.removeprefix("attn.in_proj_")
                    found[f"{place}.self_attn.{letter}_proj.{what}"] = part.contiguous()
            else:
                layer, what = rest.rsplit(".", 1)
                found[f"{place}.{inner[layer]}.{what}"] = value
    beside = {"text_model.final_layer_norm.weight": torch.zeros(8), "logit_scale": torch.zeros(1)}
    positions = {"vision_model.embeddings.position_ids": torch.arange(TOKENS + 1)}
    return {**found, **beside, **positions}


LAYOUTS = {
    "DINOv2": ("vit_base_patch14_dinov2", {}, DINOV2),
    "DINOv3": ("vit_base_patch16_dinov3_qkvb", {}, DINOV3),
    "PanDerm base": ("beit_base_patch16_224", PANDERM_OPTIONS, PANDERM),
    "CLIP of OpenAI": ("vit_large_patch14_clip_quickgelu_224", {}, CLIP),
}


def build(path, model, options):
    config = ModelConfig(name=model, weights=str(path), normalisation=IMAGENET, options={**SMALL, **options})
    return build_model(config, 3, seed=0, image_size=SIZE)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_tensor_of_the_encoder_is_the_files(layout, tmp_path):
    model, options, shapes = LAYOUTS[layout]
    tensors = drawn(shapes)
    torch.save(tensors, tmp_path / "made-up.pth")
    found = build(tmp_path / "made-up.pth", model, options)
    sums = [float(value.double().sum()) for value in tensors.values()]
    split = ("pos_embed", "q_bias", "v_bias", "reg_token", "cls_token")  # put together otherwise by timm
    for name, value in found.encoder.named_parameters():
        if not name.startswith("head.") and not name.endswith(split):
            assert min(abs(float(value.detach().double().sum()) - one) for one in sums) < 1e-5, name
    before = found.eval().embed(torch.rand(2, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(1)))
    assert torch.isfinite(before).all()


def test_a_wrong_depth_is_named(tmp_path):
    torch.save(drawn(DINOV2), tmp_path / "made-up.pth")
    with pytest.raises(JobError, match=r"missing: blocks\.2\.norm1\.weight.*and \d+ more"):
        build(tmp_path / "made-up.pth", "vit_base_patch14_dinov2", {"depth": 3})
    with pytest.raises(JobError, match=r"surplus: blocks\.1\.norm1\.weight"):
        build(tmp_path / "made-up.pth", "vit_base_patch14_dinov2", {"depth": 1})


def test_clip_by_the_names_of_transformers_is_clip(tmp_path):
    tensors = drawn(CLIP)
    torch.save(tensors, tmp_path / "openai.pt")
    save_file(transformers_clip(tensors), tmp_path / "model.safetensors")
    model = "vit_large_patch14_clip_quickgelu_224"
    images = torch.rand(2, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(1))
    ours, theirs = (build(tmp_path / file, model, {}).eval() for file in ("model.safetensors", "openai.pt"))
    assert_close_in_norm(ours.embed(images), theirs.embed(images))
    assert any("beside the encoder are left out" in note for note in ours.origins[0].notes)


def test_panderm_large_has_its_encoder_in_front_of_a_decoder_and_a_teacher(tmp_path):
    tensors = {f"encoder.{name}": value for name, value in drawn(PANDERM).items()}
    beside = {"decoder.norm.weight": torch.zeros(4), "teacher.norm.weight": torch.zeros(4)}
    torch.save({"model": {**tensors, **beside}}, tmp_path / "large.pth")
    torch.save(drawn(PANDERM), tmp_path / "base.pth")
    large, base = (
        build(tmp_path / file, "beit_base_patch16_224", PANDERM_OPTIONS) for file in ("large.pth", "base.pth")
    )
    for name, value in base.state_dict().items():
        assert torch.equal(large.state_dict()[name], value), name
    assert "2 tensors beside the encoder are left out: decoder, teacher" in large.origins[0].notes
    assert "tensors taken from `model`" in large.origins[0].notes


def test_panderm_sees_as_its_authors_code_does(tmp_path):
    """Their forward pass: class token, positions, blocks with scales, norm, and the token again."""
    tensors = drawn(PANDERM)
    torch.save(tensors, tmp_path / "made-up.pth")
    model = build(tmp_path / "made-up.pth", "beit_base_patch16_224", PANDERM_OPTIONS).eval()
    images = torch.rand(2, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(1))

    def normed(x, name):
        return torch.nn.functional.layer_norm(
            x, (WIDTH,), tensors[f"{name}.weight"], tensors[f"{name}.bias"], 1e-6
        )

    def through(x, name):
        return x @ tensors[f"{name}.weight"].T + tensors[f"{name}.bias"]

    x = torch.nn.functional.conv2d(
        (images - model.mean) / model.std,
        tensors["patch_embed.proj.weight"],
        tensors["patch_embed.proj.bias"],
        stride=PATCH,
    )
    x = x.flatten(2).transpose(1, 2)
    x = torch.cat([tensors["cls_token"].expand(2, -1, -1), x], dim=1) + tensors["pos_embed"]
    for number in range(DEPTH):
        at = f"blocks.{number}"
        bias = torch.cat([tensors[f"{at}.attn.q_bias"], torch.zeros(WIDTH), tensors[f"{at}.attn.v_bias"]])
        qkv = normed(x, f"{at}.norm1") @ tensors[f"{at}.attn.qkv.weight"].T + bias
        q, k, v = qkv.reshape(2, TOKENS + 1, 3, 2, WIDTH // 2).permute(2, 0, 3, 1, 4)
        weights = (q * (WIDTH // 2) ** -0.5 @ k.transpose(-2, -1)).softmax(dim=-1)
        seen = through((weights @ v).transpose(1, 2).reshape(2, TOKENS + 1, WIDTH), f"{at}.attn.proj")
        x = x + tensors[f"{at}.gamma_1"] * seen
        hidden = torch.nn.functional.gelu(through(normed(x, f"{at}.norm2"), f"{at}.mlp.fc1"))
        x = x + tensors[f"{at}.gamma_2"] * through(hidden, f"{at}.mlp.fc2")
    assert_close_in_norm(model.embed(images), normed(x, "norm")[:, 0])


@pytest.mark.parametrize(
    ("layout", "name"),
    [
        ("DINOv2", "DINOv2 of Meta"),
        ("DINOv3", "DINOv3 of Meta"),
        ("PanDerm base", "PanDerm (CAE)"),
        ("CLIP of OpenAI", "CLIP"),
    ],
)
def test_whose_names_they_are_is_told(layout, name, tmp_path):
    torch.save(drawn(LAYOUTS[layout][2]), tmp_path / "made-up.pth")
    path = tmp_path / "made-up.pth"
    found = inspect(Source(str(path), path))
    assert found.layout == name
    assert not found.certain
    assert not found.known
