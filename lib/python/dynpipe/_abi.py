# SPDX-License-Identifier: BSD-3-Clause
"""What lib/dynpipe.h says, for ctypes: its structs and prototypes, and where its library is found."""
import ctypes as c
import os
import sysconfig
from functools import lru_cache
from pathlib import Path

ABI = 1
SONAME = f"libdynpipe.so.{ABI}"
MAX_WORKERS, MAX_LAYERS = 512, 1024

u8, u32, u64, text = c.c_uint8, c.c_uint32, c.c_uint64, c.c_char_p


class Change(c.Structure):
    _fields_ = [("step", u64), ("value", c.c_double), ("kind", u32), ("zero", u32)]


class RunStruct(c.Structure):
    _fields_ = [("size", u32), ("traits", u32), ("rank", u32), ("n_workers", u32), ("n_layers", u32), ("schedule", u32),
                ("microbatches", u32), ("tokens_per_microbatch", u32), ("step", u64), ("steps_total", u64),
                ("boundary_bytes", u64), ("mem_limit_bytes", u64), ("cut", c.POINTER(u32)), ("change", c.POINTER(Change)),
                ("n_changes", u32), ("leave_s", u32), ("doubt_s", u32), ("zero", u32), ("device", text), ("trainer", text),
                ("checkpoint_dir", text), ("socket", text)]


class LoadStruct(c.Structure):
    _fields_ = [(name, u64) for name in ("fwd_ns", "bwd_input_ns", "bwd_weight_ns", "state_bytes", "act_bytes", "params", "nnz")]


class StepStruct(c.Structure):
    _fields_ = [("size", u32), ("zero", u32), ("step", u64), ("wall_ns", u64), ("wait_ns", u64), ("optimizer_ns", u64),
                ("busy_ns", u64), ("mem_bytes", u64), ("loss", c.c_double), ("grad_norm", c.c_double)]


class PlanStruct(c.Structure):
    _fields_ = [("size", u32), ("n_workers", u32), ("n_layers", u32), ("n_moves", u32), ("migration", u64),
                ("old_cut", c.POINTER(u32)), ("cut", c.POINTER(u32)), ("gone", c.POINTER(u8)), ("now_ns", c.c_double),
                ("then_ns", c.c_double)]


LOG_FN = c.CFUNCTYPE(None, c.c_void_p, c.c_int, text)

# A handle is a pointer: without its type ctypes would take it for an int and cut it off.
_handle = c.c_void_p
_PROTOTYPES = {
    "dynpipe_abi": (u32, []),
    "dynpipe_version": (text, []),
    "dynpipe_join": (_handle, [c.POINTER(RunStruct), u32, c.c_char_p, u64]),
    "dynpipe_on_log": (None, [LOG_FN, c.c_void_p]),
    "dynpipe_is_connected": (c.c_int, [_handle]),
    "dynpipe_fd": (c.c_int, [_handle]),
    "dynpipe_poll": (None, [_handle]),
    "dynpipe_why": (text, [_handle]),
    "dynpipe_report": (c.c_int, [_handle, c.POINTER(StepStruct), c.POINTER(LoadStruct), u32]),
    "dynpipe_forget": (None, [_handle]),
    "dynpipe_expect": (c.c_int, [_handle, u64, u32, c.POINTER(LoadStruct), u32]),
    "dynpipe_event": (c.c_int, [_handle, c.c_int, u64, c.c_double, text]),
    "dynpipe_leads": (c.c_int, [_handle]),
    "dynpipe_pending": (u64, [_handle]),
    "dynpipe_prepare": (c.c_int, [_handle, u64, c.POINTER(PlanStruct), u32]),
    "dynpipe_decide": (c.c_int, [_handle, u64, c.c_int, c.POINTER(u8), text, u32]),
    "dynpipe_done": (None, [_handle, u64, u64, u64]),
    "dynpipe_state": (c.c_int, [_handle]),
    "dynpipe_wait": (None, [_handle, u32]),
    "dynpipe_layout": (u32, [_handle, c.POINTER(u32)]),
    "dynpipe_proposal": (c.c_int, [_handle, c.POINTER(PlanStruct)]),
    "dynpipe_take_save": (c.c_int, [_handle]),
    "dynpipe_time_left": (c.c_double, [_handle]),
    "dynpipe_leave": (None, [_handle, c.c_int, text]),
}


class LibraryError(ImportError):
    """libdynpipe is not found, or is another one than this module needs."""


def _beside_package():
    """PREFIX/lib of the package in PREFIX/lib/python3/dist-packages: an installation the loader was not told of."""
    for folder in Path(__file__).resolve().parents:
        if folder.name in ("lib", "lib64"):
            multiarch = sysconfig.get_config_var("MULTIARCH") or "."
            return [str(folder / multiarch / SONAME), str(folder / SONAME)]
    return []


def _candidates():
    named = os.environ.get("DYNPIPE_LIBRARY")
    return [named] if named else [SONAME] + _beside_package()


@lru_cache(maxsize=None)
def library():
    """The loaded library, with prototypes. Raises LibraryError."""
    tried = []
    for name in _candidates():
        try:
            found = c.CDLL(name, use_errno=True)
        except OSError as e:
            tried.append(str(e))
            continue
        return _checked(found, name)
    raise LibraryError("libdynpipe is not found: " + "; ".join(tried)
                       + ". Install it (Debian: libdynpipe1), or say with DYNPIPE_LIBRARY where it is.")


def _checked(found, name):
    try:
        abi = found.dynpipe_abi
    except AttributeError:
        raise LibraryError(f"'{name}' is no libdynpipe: it has no dynpipe_abi()") from None
    abi.restype, abi.argtypes = _PROTOTYPES["dynpipe_abi"]
    if abi() != ABI:
        raise LibraryError(f"'{name}' has ABI {abi()}; this module needs ABI {ABI}: install the two from one release")
    for function, (restype, argtypes) in _PROTOTYPES.items():
        try:
            f = getattr(found, function)
        except AttributeError:
            raise LibraryError(f"'{name}' is older than this module: it has no {function}()") from None
        f.restype, f.argtypes = restype, argtypes
    return found
