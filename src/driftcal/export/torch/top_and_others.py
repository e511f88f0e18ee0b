"""The top class and the sum of the others, without underflow: what one-vs-rest calibrators and the spline share."""

from __future__ import annotations

from driftcal.export.torch.buffers import Buffers, Tensor, scripted, torch


class TopAndOthers(Buffers):
    """A module that treats the top class apart. Subclasses keep the buffer `masked`."""

    @scripted
    def split(self, z: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """The top class, the two largest logits, the others' exponentials relative to the second, and their sum."""
        best = z.argmax(-1, keepdim=True)
        top = z.gather(-1, best)
        others = z.scatter(-1, best, torch.full_like(top, float("-inf")))
        # finite also where all others are masked: their sum is then 0
        second = torch.maximum(others.amax(-1, keepdim=True), self.masked)
        powers = torch.exp(others - second)
        return best, top, second, powers, powers.sum(-1, keepdim=True)
