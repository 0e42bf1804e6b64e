"""A ResNet-18 of any width in plain PyTorch (He et al. 2016), its parameters named as timm names them."""

import torch
from torch import nn


class Block(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, before, after, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)
        self.downsample = None
        if stride != 1 or before != after:
            self.downsample = nn.Sequential(
                nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after)
            )

    def forward(self, x):
        """`(batch, after, height / stride, width / stride)`."""
        shortcut = x if self.downsample is None else self.downsample(x)
        x = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(x)) + shortcut)


class Encoder(nn.Module):
    """Stem, four layers of two blocks, mean, head."""

    def __init__(self, classes, channels):
        super().__init__()
        first = channels[0]
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        before = [64, *channels[:-1]]
        for number, (one, two) in enumerate(zip(before, channels, strict=True), start=1):
            blocks = nn.Sequential(Block(one, two, 1 if two == first else 2), Block(two, two, 1))
            setattr(self, f"layer{number}", blocks)
        self.fc = nn.Linear(channels[-1], classes)

    def features(self, x):
        """`(batch, channels)`."""
        x = self.maxpool(torch.relu(self.bn1(self.conv1(x))))
        for layer in (self.layer1, self.layer2, self.layer3, self.layer4):
            x = layer(x)
        return x.mean((2, 3))

    def forward(self, x):
        """Logits `(batch, classes)`."""
        return self.fc(self.features(x))


class Network(nn.Module):
    """The encoder under the name that a job's model gives it."""

    def __init__(self, classes, channels):
        super().__init__()
        self.encoder = Encoder(classes, channels)

    def forward(self, images):
        """Logits."""
        return self.encoder(images)
