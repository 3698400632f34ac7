"""Operators of torchvision in Python, for an installation whose binary part does not match PyTorch's
(a CPU build of one beside a CUDA build of the other). To be imported before torchvision."""

import torch


def _nms(dets, scores, iou_threshold):
    order = scores.argsort(descending=True).tolist()
    kept = []
    for at in order:
        box = dets[at]
        if all(_iou(box, dets[other]) <= iou_threshold for other in kept):
            kept.append(at)
    return torch.tensor(kept, dtype=torch.int64)


def _iou(a, b):
    width = (torch.minimum(a[2], b[2]) - torch.maximum(a[0], b[0])).clamp(min=0)
    height = (torch.minimum(a[3], b[3]) - torch.maximum(a[1], b[1])).clamp(min=0)
    both = width * height
    return float(both / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both))


def _roi_align(input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned):
    from torchvision.ops.roi_align import _roi_align as in_python

    return in_python(input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned)


_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
    "int sampling_ratio, bool aligned) -> Tensor",
    "_roi_align_backward(Tensor grad, Tensor rois, float spatial_scale, SymInt pooled_height, "
    "SymInt pooled_width, SymInt batch_size, SymInt channels, SymInt height, SymInt width, "
    "int sampling_ratio, bool aligned) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qroi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
    "int sampling_ratio, bool aligned) -> Tensor",
    "ps_roi_align(Tensor input, Tensor rois, float a, SymInt b, SymInt c, int d) -> (Tensor, Tensor)",
    "_ps_roi_align_backward(Tensor a, Tensor b, Tensor c, float d, SymInt e, SymInt f, int g, SymInt h, "
    "SymInt i, SymInt j, SymInt k) -> Tensor",
    "roi_pool(Tensor input, Tensor rois, float a, SymInt b, SymInt c) -> (Tensor, Tensor)",
    "_roi_pool_backward(Tensor a, Tensor b, Tensor c, float d, SymInt e, SymInt f, SymInt g, SymInt h, "
    "SymInt i, SymInt j) -> Tensor",
    "ps_roi_pool(Tensor input, Tensor rois, float a, SymInt b, SymInt c) -> (Tensor, Tensor)",
    "_ps_roi_pool_backward(Tensor a, Tensor b, Tensor c, float d, SymInt e, SymInt f, SymInt g, SymInt h, "
    "SymInt i, SymInt j) -> Tensor",
    "deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt a, SymInt b, "
    "SymInt c, SymInt d, SymInt e, SymInt f, SymInt g, SymInt h, bool i) -> Tensor",
    "_deform_conv2d_backward(Tensor a, Tensor b, Tensor c, Tensor d, Tensor e, Tensor f, SymInt g, SymInt h, "
    "SymInt i, SymInt j, SymInt k, SymInt l, SymInt m, SymInt n, bool o) "
    "-> (Tensor, Tensor, Tensor, Tensor, Tensor)",
)

_library = None


def define():
    """Defines the operators unless torchvision brings them."""
    global _library
    try:
        import torchvision  # noqa: F401

        return
    except ModuleNotFoundError:  # its networks are refused one by one
        return
    except RuntimeError:
        import sys

        for name in [name for name in sys.modules if name.startswith("torchvision")]:
            del sys.modules[name]
    _library = torch.library.Library("torchvision", "FRAGMENT")
    for schema in _SCHEMAS:
        _library.define(schema)
    _library.impl("nms", _nms, "CPU")
    _library.impl("roi_align", _roi_align, "CompositeImplicitAutograd")
    from torchvision import extension

    extension._has_ops = lambda: True
