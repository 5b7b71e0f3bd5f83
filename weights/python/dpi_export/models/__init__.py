"""Models in PyTorch that no library of this package's importers has. They are ordinary nn.Modules: train them, give them to from_torch.
Importing this package needs torch."""

from .can import CAN
from .co_action import CoActionNetwork, CoActionUnit, MicroMlp

__all__ = ["CAN", "CoActionNetwork", "CoActionUnit", "MicroMlp"]
