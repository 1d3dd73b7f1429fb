"""Linear maps and products of matrices."""

from __future__ import annotations

from torch import Tensor

from ._precision import Precision, products


def linear(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    precision: Precision = None,
    compute_dtype: str | None = None,
    seed: int = 0,
) -> Tensor:
    """``torch.nn.functional.linear`` whose three products multiply cast operands.

    Args:
        input: fp32, bf16 or fp16 ``[..., K]``.
        weight: ``[N, K]``; its casts read it as it is kept, its gradient has its dtype and is not rounded to another.
        bias: ``[N]``, added to the fp32 sums.
        precision: the casts of the six operands, or one cast for all.
        compute_dtype: of what has no cast, and of the result; by default that of ``input``.
        seed: of stochastic roundings and fresh signs.

    Returns:
        ``[..., N]`` in the compute dtype. A NaN or infinity makes all that shares its scale NaN.

    Raises:
        TypeError: operands that are integers, complex or fp64.
        ValueError: an unknown compute dtype, a text that is no cast, a delayed scale.

    Example:
        >>> import torch
        >>> x, w = torch.tensor([[5.0, 0.3]]), torch.tensor([[1.0, 1.0]])
        >>> linear(x, w).item(), linear(x, w, precision="mxfp4").item()    # 5 -> 4, 0.3 -> 0.5
        (5.300000190734863, 4.5)
    """
    return products("functional.linear", input, precision=precision, compute_dtype=compute_dtype, seed=seed).linear(
        input, weight, bias
    )


def matmul(
    input: Tensor, other: Tensor, *, precision: Precision = None, compute_dtype: str | None = None, seed: int = 0
) -> Tensor:
    """``torch.matmul`` in casts: ``input`` has those of the input, ``other`` those of the weight.

    A parameter has the casts of the weight on whichever side it stands.

    Args:
        input: fp32, bf16 or fp16, of one dimension or more.
        other: likewise; batch dimensions are broadcast. Its casts read it as it is kept.
        precision: the casts of the six operands, or one cast for all.
        compute_dtype: of what has no cast, and of the result; by default that of ``input``.
        seed: of stochastic roundings and fresh signs.

    Returns:
        As ``torch.matmul``, in the compute dtype. Blocks end with each matrix; a scale for the tensor is one for all
        of them.

    Raises:
        TypeError, ValueError: as `linear`.

    Example:
        >>> import torch
        >>> a = torch.tensor([[1.0, 3.3]])
        >>> matmul(a, a.mT, precision="e4m3").item()    # 3.3 -> 3.25
        11.5625
    """
    return products("functional.matmul", input, precision=precision, compute_dtype=compute_dtype, seed=seed).matmul(
        input, other
    )


def bmm(
    input: Tensor, mat2: Tensor, *, precision: Precision = None, compute_dtype: str | None = None, seed: int = 0
) -> Tensor:
    """``torch.bmm`` in casts, as `matmul` of ``[B, M, K]`` and ``[B, K, N]``.

    Raises:
        TypeError: as `linear`.
        ValueError: as `linear`; operands that are no batches of equal length.

    Example:
        >>> import torch
        >>> bmm(torch.ones(2, 1, 3), torch.ones(2, 3, 1), precision="nvfp4").flatten().tolist()
        [3.0, 3.0]
    """
    if input.dim() != 3 or mat2.dim() != 3 or input.shape[0] != mat2.shape[0]:
        raise ValueError(
            f"functional.bmm: got shapes {list(input.shape)} and {list(mat2.shape)}, expected [B, M, K] and [B, K, N]; "
            "matmul takes others"
        )
    return products("functional.bmm", input, precision=precision, compute_dtype=compute_dtype, seed=seed).matmul(
        input, mat2
    )


def einsum(
    equation: str, *operands: Tensor, precision: Precision = None, compute_dtype: str | None = None, seed: int = 0
) -> Tensor:
    """``torch.einsum`` in casts: operands are multiplied in pairs, each along what it sums.

    Of a pair, the left one has the casts of the input and the right one those of the weight; a parameter has those of
    the weight. Without an index to sum over nothing is cast.

    Raises:
        TypeError, ValueError: as `linear`; torch's own errors about the equation.

    Example:
        >>> import torch
        >>> einsum("ik,jk->ij", torch.tensor([[5.0]]), torch.tensor([[2.0]]), precision="mxfp4").item()
        8.0
    """
    _refuse_no_equation(equation)
    if not operands:
        raise ValueError("functional.einsum: got no operands, expected one for each term of the equation")
    return products(
        "functional.einsum", operands[0], precision=precision, compute_dtype=compute_dtype, seed=seed
    ).einsum(equation, *operands)


def _refuse_no_equation(equation: object) -> None:
    if not isinstance(equation, str):
        raise TypeError(
            f"functional.einsum: got a {type(equation).__name__} as the equation, expected a string such as "
            "'ij,jk->ik' before the operands; torch's form with lists of indices is not taken"
        )
