"""A masked autoencoder on one client as an engineer writes it from the paper: He et al. 2022."""

import torch
from timm.layers import build_sincos2d_pos_embed
from timm.models.vision_transformer import Block
from torch import nn

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class PlainMAE(nn.Module):
    """A timm vision transformer with a class token, and a light decoder."""

    def __init__(self, encoder, width, depth, heads, mask_ratio):
        super().__init__()
        encoder.reset_classifier(0)
        self.encoder = encoder
        self.patch = encoder.patch_embed.patch_size[0]
        self.rows = encoder.patch_embed.grid_size[0]
        self.hidden = round(mask_ratio * self.rows**2)
        self.decoder_embed = nn.Linear(encoder.embed_dim, width)
        self.mask_token = nn.Parameter(torch.zeros(1, 1, width))
        self.decoder_blocks = nn.Sequential(*(Block(width, heads, qkv_bias=True) for _ in range(depth)))
        self.decoder_norm = nn.LayerNorm(width)
        self.decoder_pred = nn.Linear(width, 3 * self.patch**2)
        positions = build_sincos2d_pos_embed([self.rows, self.rows], width)
        self.register_buffer("decoder_positions", torch.cat([torch.zeros(1, width), positions]))
        self.register_buffer("mean", torch.tensor(MEAN).view(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor(STD).view(1, 3, 1, 1))

    def patchify(self, images):
        """`(batch, patches, pixels)`."""
        batch, rows, patch = len(images), self.rows, self.patch
        cut = images.reshape(batch, 3, rows, patch, rows, patch)
        return torch.einsum("nchpwq->nhwpqc", cut).reshape(batch, rows**2, patch**2 * 3)

    def encode(self, images, order):
        """What the encoder makes of the patches that come first in `order`."""
        encoder = self.encoder
        tokens = encoder.patch_embed(images) + encoder.pos_embed[:, 1:]
        seen = order[:, : tokens.shape[1] - self.hidden]
        tokens = torch.gather(tokens, 1, seen.unsqueeze(-1).expand(-1, -1, tokens.shape[2]))
        first = (encoder.cls_token + encoder.pos_embed[:, :1]).expand(len(tokens), -1, -1)
        return encoder.norm(encoder.blocks(torch.cat([first, tokens], dim=1)))

    def decode(self, encoded, order):
        """The pixels of all patches."""
        tokens = self.decoder_embed(encoded)
        mask_tokens = self.mask_token.to(tokens.dtype).expand(len(tokens), self.hidden, -1)
        shuffled = torch.cat([tokens[:, 1:], mask_tokens], dim=1)
        back = order.argsort(dim=1).unsqueeze(-1).expand(-1, -1, tokens.shape[2])
        tokens = torch.cat([tokens[:, :1], torch.gather(shuffled, 1, back)], dim=1)
        tokens = self.decoder_blocks(tokens + self.decoder_positions)
        return self.decoder_pred(self.decoder_norm(tokens))[:, 1:]

    def forward(self, images, noise):
        """The mean squared error of the patches whose noise is greatest."""
        images = (images - self.mean) / self.std
        order = noise.argsort(dim=1)
        predicted = self.decode(self.encode(images, order), order)
        masked = torch.zeros_like(noise).scatter_(1, order[:, -self.hidden :], 1.0)
        errors = (predicted - self.patchify(images)).square().mean(dim=-1)
        return (errors * masked).sum() / masked.sum()


def train_mae(model, optimizer, batches, autocast):
    """One epoch of pictures and noise; returns the mean loss over pictures."""
    total, count = torch.zeros((), device=model.mean.device), 0
    for images, noise in batches:
        optimizer.zero_grad(set_to_none=True)
        with autocast():
            loss = model(images, noise)
        loss.backward()
        optimizer.step()
        total += loss.detach() * len(images)
        count += len(images)
    return total.item() / count
