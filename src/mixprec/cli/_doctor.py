"""``mixprec doctor``: what mixprec finds on this machine."""

from __future__ import annotations

import platform


def command() -> int:
    """Tell what mixprec finds on this machine: versions, compiled kernels, what runs natively.

    For example: `mixprec doctor`
    """
    import torch

    from mixprec.compare import machine_facts, package_versions

    for name, version in package_versions().items():
        print(f"{name + ':':<10}{version}")
    facts = machine_facts("cpu")
    print(f"{'system:':<10}{platform.platform()}")
    print(f"{'machine:':<10}{facts['cpu']}, {facts['cores']} cores, torch uses {facts['threads']} threads")
    print(f"{'kernels:':<10}{_kernels()}")
    for device in ("cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))):
        print(f"{device + ':':<10}{_native(device)}")
    return 0


def _kernels() -> str:
    """Whether the compiled kernels load, and what they use of this CPU."""
    try:
        from mixprec.kernels.cpu import level_names
    except ImportError as error:
        return (
            f"the compiled kernels cannot be loaded ({error}); the slower reference backend serves, with the same "
            "results. To get them: install a C++17 compiler, then mixprec again"
        )
    return f"compiled, at level {level_names()[-1]} (this CPU and build have {', '.join(level_names())})"


def _native(device: str) -> str:
    import torch

    from mixprec.kernels import default_backend
    from mixprec.nn import native_here

    where = torch.device(device)
    name = ""
    if where.type == "cuda":
        name = f"{torch.cuda.get_device_name(where)}, rounded by the {default_backend(where.type).name} kernels: "
    native = ", ".join(native_here(where))
    return f"{name}native: {native or 'fp32 only'}; every other format is emulated (exact numbers, no gain in speed)"
