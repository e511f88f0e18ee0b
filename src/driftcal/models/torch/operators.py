"""The operators that a torch.export file may call: arithmetic on tensors, but no files, devices or random numbers.

torch has over 1,700 operators, among them ``aten.from_file``, which maps any file for writing. The allowed operators
are therefore listed. The list holds the Core ATen set, and the operators that torch.export writes for the usual layers.
"""

from __future__ import annotations

import re

_ATEN = """
_adaptive_avg_pool2d _adaptive_avg_pool3d _assert_async _assert_scalar _assert_tensor_metadata _cdist_forward _conj
_fft_c2c _fft_c2r _fft_r2c _local_scalar_dense _log_softmax _native_batch_norm_legit
_native_batch_norm_legit_no_training _native_multi_head_attention _reshape_alias _safe_softmax
_scaled_dot_product_flash_attention_for_cpu _softmax _to_copy _transformer_encoder_layer_fwd _unsafe_index
_unsafe_view _weight_norm abs abs_ acos acosh adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d
adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d add add_ addbmm addcdiv addcmul addmm addmv alias all
alpha_dropout amax amin aminmax any arange argmax argmin argsort asin asinh atan atan2 atanh avg_pool1d
avg_pool2d avg_pool3d baddbmm batch_norm bincount bitwise_and bitwise_not bitwise_or bitwise_xor bmm broadcast_tensors
broadcast_to bucketize cat cdist ceil celu channel_shuffle chunk clamp clamp_ clamp_max clamp_min clip clone col2im
complex concat concatenate constant_pad_nd contiguous conv1d conv2d conv3d conv_transpose1d conv_transpose2d
conv_transpose3d convolution copy copy_ cos cosh cosine_similarity count_nonzero cross cummax cummin cumprod cumsum
detach detach_ diag diag_embed diagonal diff div div_ dot dropout dropout_ einsum elu elu_ embedding embedding_bag eq
erf erfc erfinv exp exp2 exp_ expand expand_as expm1 eye feature_alpha_dropout feature_dropout fft_fft fft_ifft
fft_irfft fft_rfft fill fill_ flatten flip floor floor_divide fmax fmin fmod frac frobenius_norm full full_like gather
ge gelu gelu_ glu grid_sampler grid_sampler_2d group_norm gru gt hardshrink hardsigmoid hardsigmoid_ hardswish
hardswish_ hardtanh hardtanh_ im2col imag index index_add index_put index_select instance_norm is_nonzero isfinite
isinf isnan kthvalue layer_norm le leaky_relu leaky_relu_ lerp lift_fresh lift_fresh_copy linalg_norm
linalg_vector_norm linear linspace log log10 log1p log2 log_sigmoid log_softmax logaddexp logical_and logical_not
logical_or logical_xor logit logsumexp lstm lt masked_fill masked_fill_ masked_scatter masked_select matmul max
max_pool1d max_pool2d max_pool2d_with_indices max_pool3d max_pool3d_with_indices maximum mean median meshgrid min
minimum mish mish_ mm moveaxis movedim mul mul_ mv nan_to_num nanmean nansum narrow native_batch_norm
native_group_norm native_layer_norm ne neg neg_ new_full new_ones new_zeros nonzero norm one_hot ones ones_like outer
pad permute pixel_shuffle pixel_unshuffle polar pow pow_ prelu prod quantile real reciprocal reflection_pad1d
reflection_pad2d reflection_pad3d relu relu6 relu6_ relu_ remainder repeat repeat_interleave replication_pad1d
replication_pad2d replication_pad3d reshape reshape_as rms_norm rnn_relu rnn_tanh roll rot90 round rrelu rsqrt rsub
scalar_tensor scaled_dot_product_attention scatter scatter_add scatter_reduce searchsorted select select_scatter selu
selu_ sigmoid sigmoid_ sign silu silu_ sin sinh slice slice_scatter softmax softplus softshrink sort split
split_with_sizes sqrt sqrt_ square squeeze stack std std_mean sub sub_ sum swapaxes swapdims sym_is_contiguous
sym_numel sym_size sym_storage_offset sym_stride t take take_along_dim tan tanh tanh_ tensor_split threshold
threshold_ tile to topk transpose tril triu true_divide trunc type_as unbind unflatten unfold unsafe_chunk
unsafe_split unsqueeze upsample_bicubic2d upsample_bilinear2d upsample_linear1d upsample_nearest1d upsample_nearest2d
upsample_nearest3d upsample_trilinear3d var var_mean view view_as view_as_complex view_as_real where xlogy zeros
zeros_like
"""
_OTHERS = {
    "prims": "broadcast_in_dim convert_element_type view_of",
    "quantized_decomposed": "choose_qparams dequantize_per_channel dequantize_per_tensor dequantize_per_token "
    "quantize_per_channel quantize_per_tensor quantize_per_token",
    "torchvision": "deform_conv2d nms ps_roi_align ps_roi_pool roi_align roi_pool",
}
#: Operators as "namespace.name".
OPERATORS = frozenset(
    f"{namespace}.{name}" for namespace, names in {"aten": _ATEN, **_OTHERS}.items() for name in names.split()
)
_TENSORS = re.compile(r"torch\.ops\.(\w+\.\w+)\.[A-Za-z]\w*")
_NUMBERS = re.compile(
    r"_operator\.(add|sub|mul|truediv|floordiv|mod|neg|pow|eq|ne|lt|le|gt|ge|getitem|and_|or_|not_|pos)"
    r"|math\.(ceil|floor|trunc|sqrt)|torch\.sym_(int|float|max|min|not|ite|sum)"
)


def is_allowed(target: str) -> bool:
    """Whether a node of an exported graph may call `target`.

    >>> is_allowed("torch.ops.aten.relu.default"), is_allowed("torch.ops.aten.from_file.default")
    (True, False)
    """
    tensors = _TENSORS.fullmatch(target)
    return tensors.group(1) in OPERATORS if tensors else bool(_NUMBERS.fullmatch(target))
