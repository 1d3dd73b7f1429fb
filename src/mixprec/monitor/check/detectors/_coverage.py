"""Products that the recipe does not reach, and layers whose sizes its blocks do not divide."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ....nn import Audit, Conversion, uneven_blocks
from ..._finding import Finding
from ._detector import Detector, Step

#: Share of the GEMM FLOPs from which on an uncovered site is a warning; below it is a note.
SHARE = 0.01


class CoverageDetector(Detector):
    """GEMMs that ran outside of the recipe, measured: a warning from 1 % of the FLOPs on, else a note.

    And as notes: layers whose sizes their blocks do not divide, and what the conversion told of rules that do less on
    this model than they say.
    """

    def end(self, step: Step) -> Iterable[Finding]:
        """The audit of the step."""
        conversion = self.setting.conversion
        if step.audit is None or conversion is None:
            return
        yield from self._uncovered(step.audit)
        yield from self._uneven(conversion)
        yield from self._notes(conversion)

    def _uncovered(self, audit: Audit) -> Iterator[Finding]:
        flops: dict[str, int] = {}
        for row in audit.uncovered:
            if not row.recomputed:
                flops[row.site] = flops.get(row.site, 0) + row.flops
        for site, count in flops.items():
            share = count / max(audit.flops, 1)
            rows = [row for row in audit.uncovered if row.site == site]
            yield Finding(
                step=self.setting.step,
                name="GEMM outside of the recipe",
                severity="warning" if share >= SHARE else "note",
                site=f"{site} ({', '.join(dict.fromkeys(row.gemm for row in rows))})",
                message=f"{100 * share:.1f} % of the GEMM FLOPs run in {rows[0].format} by torch, which recipe "
                f"{audit.recipe} does not reach",
                evidence={"share of FLOPs": share, "format": rows[0].format},
                threshold=f"{SHARE:g} of the GEMM FLOPs (below it a note)",
                remedy="call mixprec.functional in that module, or register its class: mixprec.nn.register_layer",
            )

    def _uneven(self, conversion: Conversion) -> Iterator[Finding]:
        found = uneven_blocks(conversion)
        if not found:
            return
        path, ((outputs, inputs), block) = next(iter(found.items()))
        more = f" (so are {len(found) - 1} more)" if len(found) > 1 else ""
        yield Finding(
            step=self.setting.step,
            name="size that blocks do not divide",
            severity="note",
            site=path or "<model>",
            message=f"{path or 'the model'} ({inputs} -> {outputs}) has casts in blocks of {block}: the last block is "
            f"padded with zeros, and native kernels refuse it{more}",
            evidence={"inputs": inputs, "outputs": outputs, "block": block, "layers": len(found)},
            threshold=f"sizes that {block} divides",
            remedy="widen the layer, or leave it in the compute dtype: the rule, in front of the others",
            rule=f'[[rules]]\nmatch = "{path or "*"}"\nprecision = "compute"\n',
        )

    def _notes(self, conversion: Conversion) -> Iterator[Finding]:
        name = conversion.recipe.name
        for note in conversion.notes:
            # What a recipe says of the device is no matter of the model's.
            if note.startswith(f"recipe {name}") and not note.startswith(f"recipe {name} on "):
                yield Finding(
                    step=self.setting.step,
                    name="rule that does less than it says",
                    severity="note",
                    site="<model>",
                    message=note,
                    evidence={"recipe": name},
                    threshold="every rule is about a layer of the model",
                    remedy="change the rule's match or type; required = false says that this is fine",
                )
