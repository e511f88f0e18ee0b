"""The top class and the sum of the others, without underflow, for one-vs-rest calibrators and the spline."""

from __future__ import annotations

from driftcal.export.torch.buffers import Buffers, Tensor, scripted, torch


class TopAndOthers(Buffers):
    """A module that treats the top class separately. Subclasses add the buffer `masked`."""

    @scripted
    def split(self, z: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """The top class, the two largest logits, the exponentials of the others relative to the second, and their sum.

        The exponentials are (…, C), with 0 for the top class; the other results are (…, 1).
        """
        best = z.argmax(-1, keepdim=True)
        top = z.gather(-1, best)
        others = z.scatter(-1, best, torch.full_like(top, float("-inf")))
        # finite if all others are masked too: their sum is then 0
        second = torch.maximum(others.amax(-1, keepdim=True), self.masked)
        powers = torch.exp(others - second)
        return best, top, second, powers, powers.sum(-1, keepdim=True)
