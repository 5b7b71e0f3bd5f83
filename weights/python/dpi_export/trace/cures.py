"""What a refused model may be written with instead, by operator: the last part of a refusal's text."""

#: Operators that draw numbers.
RANDOM = ("bernoulli", "native_dropout", "rand", "normal", "multinomial", "uniform", "exponential", "poisson")

_MISSING = ("a NaN in a row means that the value is missing, and the feature's own rule (missing=) replaces it before the model sees it; give what is "
            "missing as a feature of its own")
_COUNTS = "how many entries it gives depends on the rows; multiply by a mask instead"
_WHERE = "write torch.where(mask, x, y) on the whole value, or x.scatter(1, place[:, None], y) for one place in each row"
_NO_SERIES = "a bundle has no such function: compute it in preprocessing and give it as a feature, or write a formula that is close enough over your range"

#: what the operator's name holds -> what to write instead; the first that fits counts
_INSTEAD = {
    **{name: "it is random, in evaluation mode too: give a functional dropout training=self.training" for name in RANDOM},
    "nonzero": _COUNTS, "masked_select": _COUNTS, "unique": "it looks at all rows at once", "histc": "it looks at all rows at once",
    "isnan": _MISSING, "nanmean": _MISSING, "nansum": _MISSING, "nanmedian": _MISSING, "nanquantile": _MISSING,
    "isfinite": "a bundle's numbers are finite: clamp(-1e30, 1e30) what may grow without bound, and leave the question out",
    "isposinf": "a bundle's numbers are finite: clamp(-1e30, 1e30) what may grow without bound, and leave the question out",
    "index_put": _WHERE, "scatter_reduce": _WHERE, "masked_scatter": _WHERE, "renorm": "write x * (limit / x.norm(dim=1, keepdim=True)).clamp(max=1)",
    "copysign": "write x.abs() * torch.where(y < 0, -1.0, 1.0)", "signbit": "write x < 0",
    "cummax": "write torch.stack([x[:, :i + 1].amax(1) for i in range(x.shape[1])], 1)",
    "cummin": "write torch.stack([x[:, :i + 1].amin(1) for i in range(x.shape[1])], 1)",
    "mode": "it counts equal numbers: compare them, (x[:, :, None] == x[:, None]).sum(2), and take the argmax",
    "linalg_solve": "invert the matrix once, as a buffer, and multiply: x @ inverse.T",
    "_linalg_det": "write the determinant of a small matrix out by its entries", "linalg_det": "write the determinant of a small matrix out by its entries",
    "_linalg_svd": "no primitive decomposes a matrix: use the Frobenius norm, torch.linalg.norm(x, dim=(1, 2))",
    "linalg_svd": "no primitive decomposes a matrix: use the Frobenius norm, torch.linalg.norm(x, dim=(1, 2))",
    "addbmm": "it adds up over all rows: torch.bmm keeps them apart", "block_diag": "it puts rows beside other rows; leave it out",
    "_pdist": "it compares rows with other rows; torch.cdist of [rows, n, d] compares what is within a row",
    "stft": "write windows by x.unfold and torch.fft.rfft", "im2col": "write x.unfold(dim, size, step) for each dim", "col2im": "write nn.ConvTranspose1d with a fixed weight",
    "entr": "write -x * x.clamp(min=1e-30).log()", "gcd": "it is a function of ids: compute it in preprocessing and give it as a feature",
    "adaptive_max_pool": "write F.max_pool1d with kernel_size and stride", "as_strided": "write x[:, first:last:step], reshape or x.unfold",
    "angle": "write torch.atan2(imaginary, real)", "nextafter": "no decision should hang on it; leave it out", "quantize": "give the model before its quantization",
    "_to_sparse": "keep the values dense", "sparse": "keep the values dense",
    "lgamma": _NO_SERIES, "digamma": _NO_SERIES, "polygamma": _NO_SERIES, "mvlgamma": _NO_SERIES, "i0": _NO_SERIES, "erfinv": _NO_SERIES, "erfcx": _NO_SERIES,
    "log_ndtr": _NO_SERIES, "zeta": _NO_SERIES,
    "_fft": "it needs complex numbers",
}


def replacement(base):
    """What a model may call instead, as a text."""
    return next((text for key, text in _INSTEAD.items() if key in base),
                "write it with operators that there are (arithmetic, exp, log, where, cumsum, sort, matmul, gather ...; all are in "
                "dpi_export/trace/lower_table.py), or compute it in preprocessing and give the result as a feature")
