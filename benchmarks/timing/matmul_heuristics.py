"""Run times that NVIDIA's nvMatmulHeuristics estimates for the kernels it would choose.

The package (nvidia-matmul-heuristics of PyPI; proprietary, needs no GPU) is optional.
"""

import numpy as np

try:
    import nvMatmulHeuristics as library
except ImportError:
    library = None

SAMPLE = 300  # rows; an estimate takes milliseconds
GPUS = {"a100_sxm4_80gb": "A100_SXM_80GB", "h100_sxm5_80gb": "H100_SXM", "l40s": "L40S"}
BF16 = "TST"  # its letters for operands, accumulation and output


def estimates(gpu, rows):
    """(chosen, seconds) of a sample of bf16 products out[m,n] = x[m,k] w[n,k]^T; None without the
    package or where it does not know the GPU.

    The target and the flag are those of the least error on all three GPUs among its targets
    GENERIC, CUTLASS and CUTLASS3, with and without tuning by its model.
    """
    if library is None or gpu not in GPUS:
        return None
    chooser = library.NvMatmulHeuristicsInterfaceEx(
        backend=library.NvMatmulHeuristicsTarget.GENERIC,
        flags=library.NvMatmulHeuristicsFlags.PERF_MODEL_BASED_AUTO_TUNING,
        gpu=library.NvMatmulHeuristicsNvidiaGpu[GPUS[gpu]])
    layout = library.NvMatmulHeuristicsMatmulLayout.TN_ROW_MAJOR
    chosen = np.random.default_rng(4).permutation(len(rows))[:SAMPLE]
    seconds = []
    for i in chosen:
        m, n, k = (int(rows[i].columns[name]) for name in "mnk")
        problem = chooser.makeNvMatmulHeuristicsProblem(m, n, k, layout)
        seconds.append(chooser.get(problem, 1, BF16)[0]["runtime"])
    return chosen, np.array(seconds)
