"""Google's TPUs, by chip. Products are of bf16 with fp32 sums; no fp32 rate is published."""

from __future__ import annotations

from ._hardware import Hardware
from ._rows import giga, tera

_BOOK = "jax-ml/scaling-book, How to Think About TPUs"

V4 = Hardware(
    name="tpu-v4",
    title="Google TPU v4",
    kind="tpu",
    memory=giga(34.36, "Cloud TPU documentation, TPU v4: 32 GiB"),
    bandwidth=giga(1200, "Cloud TPU documentation, TPU v4"),
    rates=tera("Cloud TPU documentation, TPU v4", bf16=275, int8=275),
    link=giga(270, f"{_BOOK}: six links of 45 GB/s, one way"),
    network=giga(6.25, f"{_BOOK}: 25 GB/s a host of 4 chips"),
)
V5E = Hardware(
    name="tpu-v5e",
    title="Google TPU v5e",
    kind="tpu",
    memory=giga(16, "Cloud TPU documentation, TPU v5e"),
    bandwidth=giga(819, "Cloud TPU documentation, TPU v5e"),
    rates=tera("Cloud TPU documentation, TPU v5e", bf16=197, int8=393),
    link=giga(200, "Cloud TPU documentation, TPU v5e: 400 GB/s, both ways"),
    network=giga(3.125, "Cloud TPU documentation, TPU v5e: 2 x 100 Gb/s a host of 8 chips"),
)
V5P = Hardware(
    name="tpu-v5p",
    title="Google TPU v5p",
    kind="tpu",
    memory=giga(95, "Cloud TPU documentation, TPU v5p"),
    bandwidth=giga(2765, "Cloud TPU documentation, TPU v5p"),
    rates={
        **tera("Cloud TPU documentation, TPU v5p", bf16=459),
        **tera(_BOOK, int8=918),
    },
    link=giga(600, "Cloud TPU documentation, TPU v5p: 4800 Gb/s a chip"),
    network=giga(6.25, f"{_BOOK}: 25 GB/s a host of 4 chips"),
)
V6E = Hardware(
    name="tpu-v6e",
    title="Google TPU v6e (Trillium)",
    kind="tpu",
    memory=giga(32, "Cloud TPU documentation, TPU v6e"),
    bandwidth=giga(1638, "Cloud TPU documentation, TPU v6e"),
    rates=tera("Cloud TPU documentation, TPU v6e", bf16=918, int8=1836),
    link=giga(400, "Cloud TPU documentation, TPU v6e: 800 GB/s, both ways"),
    network=giga(3.125, f"{_BOOK}: 25 GB/s a host of 8 chips"),
)

TPU = (V4, V5E, V5P, V6E)
