# SPDX-License-Identifier: BSD-3-Clause
"""What a layer of PyTorch carries from step to step, as bytes. dynpipe.torch has what trainers use of it.

MAGIC, u64 length of the header, header, tensors. The header is JSON; where it has a tensor stand its type and shape, and the elements of
all tensors follow each other behind it, in the order of the header. The same state gives the same bytes, on one kind of machine: no address,
time or order of a hash is in them. Nothing is called that the bytes name, as a pickle does.
"""
import ctypes
import hashlib
import json
import struct
import sys
from typing import Any, Dict, List, Optional, Tuple

import torch

Layer = Tuple[torch.nn.Module, Optional[torch.optim.Optimizer]]

MAGIC = b"DPTORCH1"
_DTYPES = {str(d)[len("torch."):]: d for d in (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32,
                                               torch.int16, torch.int8, torch.uint8, torch.bool)}


def pack(tree: Any) -> torch.Tensor:
    """tree: tensors, numbers, texts, None, in lists, tuples and dicts. Returns a tensor of bytes on the CPU. Raises TypeError."""
    tensors: List[torch.Tensor] = []
    header = json.dumps([sys.byteorder, _encode(tree, tensors)], separators=(",", ":")).encode()
    front = MAGIC + struct.pack("<Q", len(header)) + header
    data = torch.empty(len(front) + sum(t.numel() * t.element_size() for t in tensors), dtype=torch.uint8)
    _bytes_of(data)[:len(front)] = front
    at = len(front)
    for t in tensors:
        n = t.numel() * t.element_size()
        if n:
            data[at:at + n] = t.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        at += n
    return data


def _encode(x: Any, tensors: List[torch.Tensor]) -> Any:
    if isinstance(x, torch.Tensor):
        name = str(x.dtype)[len("torch."):]
        if name not in _DTYPES or x.layout != torch.strided:
            raise TypeError(f"a tensor of type {x.dtype}, {x.layout} cannot be moved")
        tensors.append(x)
        return {"tensor": [name, list(x.shape)]}
    if x is None or isinstance(x, (bool, int, str)):
        return x
    if isinstance(x, float):
        return {"float": x.hex()}  # of every float, of infinities and NAN, too
    if isinstance(x, list):
        return [_encode(v, tensors) for v in x]
    if isinstance(x, tuple):
        return {"tuple": [_encode(v, tensors) for v in x]}
    if isinstance(x, dict):
        return {"dict": [[_encode(k, tensors), _encode(v, tensors)] for k, v in x.items()]}
    raise TypeError(f"a {type(x).__name__} cannot be moved: a layer's state is made of tensors, numbers, texts, lists, tuples and dicts")


def unpack(data: torch.Tensor) -> Any:
    """What pack() was given, its tensors on the CPU and of memory of their own. Raises ValueError where the bytes are not pack()'s."""
    view, size = _bytes_of(data), data.numel()
    if size < 16 or bytes(view[:8]) != MAGIC:
        raise ValueError(f"{size} bytes do not begin as a layer does")
    length = struct.unpack("<Q", bytes(view[8:16]))[0]
    if length > size - 16:
        raise ValueError(f"its header has {length} bytes, and {size - 16} are left")
    try:
        order, tree = json.loads(bytes(view[16:16 + length]))
        if order != sys.byteorder:
            raise ValueError(f"its byte order is {order}")
        reader = _Reader(data, 16 + length)
        tree = reader.decode(tree)
    except (TypeError, KeyError, RecursionError) as e:
        raise ValueError(f"its header is wrong: {e}") from None
    if reader.at != size:
        raise ValueError(f"{size - reader.at} bytes are too many")
    return tree


class _Reader:
    """Follows a header, and takes the tensors' elements from behind it."""

    def __init__(self, data: torch.Tensor, at: int):
        self.data, self.at = data, at

    def decode(self, x: Any) -> Any:
        if isinstance(x, list):
            return [self.decode(v) for v in x]
        if not isinstance(x, dict):
            return x
        (kind, value), = x.items()
        if kind == "tensor":
            return self.tensor(*value)
        if kind == "float":
            return float.fromhex(value)
        if kind == "tuple":
            return tuple(self.decode(v) for v in value)
        if kind == "dict":
            return {self.decode(k): self.decode(v) for k, v in value}
        raise ValueError(f"its header has a '{kind}'")

    def tensor(self, name: str, shape: List[int]) -> torch.Tensor:
        dtype = _DTYPES[name]
        n = torch.empty(0, dtype=dtype).element_size()
        for length in shape:
            if not isinstance(length, int) or length < 0:
                raise ValueError(f"its header has a tensor with a side of {length}")
            n *= length
        if n > self.data.numel() - self.at:
            raise ValueError(f"a tensor has {n} bytes, and {self.data.numel() - self.at} are left")
        part = self.data[self.at:self.at + n].clone()
        self.at += n
        return part.view(dtype).reshape(shape) if n else torch.empty(shape, dtype=dtype)


def _bytes_of(data: torch.Tensor) -> memoryview:
    """The tensor's memory, while the tensor lives: without NumPy, which PyTorch need not have."""
    n = data.numel()
    return memoryview((ctypes.c_uint8 * n).from_address(data.data_ptr()) if n else b"").cast("B")


def sha256(data: torch.Tensor) -> bytes:
    """Digest of a tensor of bytes on the CPU."""
    return hashlib.sha256(_bytes_of(data)).digest()


def tree_of(layer: Layer) -> Dict[str, Any]:
    """All that a layer carries from step to step. Between two steps there are no gradients."""
    module, optimizer = layer
    return {"module": dict(module.state_dict()), "training": module.training,
            "trainable": [p.requires_grad for p in module.parameters()],
            "optimizer": optimizer.state_dict() if optimizer else None}


def restore(layer: Layer, tree: Dict[str, Any]) -> None:
    module, optimizer = layer
    if (tree["optimizer"] is None) != (optimizer is None):
        raise ValueError("it was sent with an optimizer and is made without one, or the other way round")
    module.load_state_dict(tree["module"])
    module.train(tree["training"])
    for p, trains in zip(module.parameters(), tree["trainable"]):
        p.requires_grad_(trains)
    if optimizer is None:
        return
    optimizer.load_state_dict(tree["optimizer"])
    # load_state_dict() turns what it takes into the parameters' type; moments may have more bits than those.
    order = [p for g in optimizer.param_groups for p in g["params"]]
    for k, values in tree["optimizer"]["state"].items():
        have = optimizer.state[order[k]]
        for name, value in values.items():
            have[name] = value.to(have[name].device) if isinstance(value, torch.Tensor) else value


def state_bytes(module: torch.nn.Module, optimizer: Optional[torch.optim.Optimizer] = None) -> int:
    """Weights, buffers, gradients (of what is trained, there or not), optimizer's state."""
    def size(t):
        return t.numel() * t.element_size()
    total = sum(size(p) * (2 if p.requires_grad else 1) for p in module.parameters()) + sum(size(b) for b in module.buffers())
    if optimizer:
        total += sum(size(v) for s in optimizer.state.values() for v in s.values() if isinstance(v, torch.Tensor))
    return total
