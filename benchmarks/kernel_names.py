"""Names of kernels as they appear in traces of serving engines, in variants per kind of work.

Every entry is (demangled, short, mangled), the three names a KERNEL row refers to.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import TypeAlias

KernelName: TypeAlias = tuple[str, str, str]


def kernel_names() -> dict[str, list[KernelName]]:
    """Give the variants of every kind of kernel the generated step launches."""
    return {
        "gemm": list(_gemm()),
        "attention": list(_attention()),
        "norm": list(_norm()),
        "rope": list(_rope()),
        "kv_write": list(_kv_write()),
        "act": list(_act()),
        "comm": list(_nccl()),
        "elementwise": list(_elementwise()),
        "triton": list(_triton()),
        "sampling": list(_sampling()),
    }


def _template(namespace: str, short: str, arguments: str, parameters: str) -> KernelName:
    """Name an instance of a kernel template."""
    path = [*namespace.split("::"), short] if namespace else [short]
    mangled = "_ZN" + "".join(f"{len(part)}{part}" for part in path)
    demangled = f"void {'::'.join(path)}<{arguments}>({parameters})"
    return demangled, short, f"{mangled}I{abs(_checksum(arguments)):x}EEv"


def _checksum(text: str) -> int:
    """Give a number that is the same in every process, unlike hash()."""
    return sum(ord(letter) * (31 + index) for index, letter in enumerate(text))


def _plain(name: str) -> KernelName:
    """Name a kernel without template arguments (cuBLAS, Triton): all three names are equal."""
    return name, name, name


def _gemm() -> Iterator[KernelName]:
    """Name cuBLAS and CUTLASS matrix products in many tile shapes."""
    for m, n, stages in product((64, 128, 192, 256), (8, 64, 128, 192), (3, 4, 6)):
        yield _plain(f"nvjet_tst_{m}x{n}_64x{stages}_2x1_v_bz_coopB_TNN")
    for m, n in product((64, 128, 256), (16, 64, 128, 256)):
        shape = f"cute::C<{m}>, cute::C<{n}>, cute::C<64>"
        operator = (
            "cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, int, int, int>, "
            "cutlass::gemm::collective::CollectiveMma<cutlass::gemm::"
            f"MainloopSm90TmaGmmaWarpSpecialized<4>, cute::tuple<{shape}>, cutlass::bfloat16_t>>"
        )
        yield _template("cutlass", "device_kernel", operator, "T1::Params")


def _attention() -> Iterator[KernelName]:
    """Name FlashAttention forward kernels for two head sizes."""
    for head, block, causal, split in product((64, 128), (64, 128, 176), (0, 1), (0, 1)):
        traits = (
            f"flash::FlashAttnFwdSm90<flash::CollectiveMainloopFwdSm90<(int)2, cute::tuple<"
            f"cute::C<128>, cute::C<{block}>, cute::C<{head}>>, (int){head}, cutlass::bfloat16_t, "
            f"float, cutlass::arch::Sm90, (bool){causal}, (bool){split}>>"
        )
        yield _template("cutlass", "device_kernel", traits, "T1::Params")
    for head in (64, 128):
        yield _template(
            "flash",
            "flash_fwd_splitkv_combine_kernel",
            f"Flash_fwd_kernel_traits<(int){head}, (int)64, (int)128, (int)4>, (int)4, (int)5",
            "flash::Flash_fwd_params",
        )


def _norm() -> Iterator[KernelName]:
    """Name vLLM's RMS norms."""
    for kind, width in product(("c10::BFloat16", "c10::Half"), (0, 4, 8)):
        parameters = "T1 *, T1 *, const T1 *, float, int, int"
        yield _template("vllm", "fused_add_rms_norm_kernel", f"{kind}, (int){width}", parameters)
        yield _template("vllm", "rms_norm_kernel", f"{kind}, (int){width}", parameters)


def _rope() -> Iterator[KernelName]:
    """Name rotary embedding kernels."""
    for kind, neox in product(("c10::BFloat16", "c10::Half"), (0, 1)):
        parameters = "const long *, T1 *, T1 *, const T1 *, int, long, long, int, int, int"
        yield _template("vllm", "rotary_embedding_kernel", f"{kind}, (bool){neox}", parameters)


def _kv_write() -> Iterator[KernelName]:
    """Name the kernels that store keys and values into the paged cache."""
    for kind, cache in product(("__nv_bfloat16", "__half"), ("__nv_bfloat16", "unsigned char")):
        yield _template(
            "vllm",
            "reshape_and_cache_flash_kernel",
            f"{kind}, {cache}, (vllm::Fp8KVCacheDataType)0",
            "const T1 *, const T1 *, T2 *, T2 *, const long *, int, int, int, int, int",
        )


def _act() -> Iterator[KernelName]:
    """Name gated activations."""
    for kind, function in product(("c10::BFloat16", "c10::Half"), ("silu", "gelu", "gelu_tanh")):
        arguments = f"{kind}, &vllm::{function}_kernel<{kind}>, (bool)1"
        yield _template("vllm", "act_and_mul_kernel", arguments, "T1 *, const T1 *, int")


def _nccl() -> Iterator[KernelName]:
    """Name NCCL's device kernels."""
    operations = ("AllReduce_Sum", "ReduceScatter_Sum")
    for operation, kind, way in product(operations, ("bf16", "f32"), ("RING_LL", "TREE_LL")):
        name = f"ncclDevKernel_{operation}_{kind}_{way}"
        yield f"{name}(ncclDevKernelArgsStorage<(unsigned long)4096>)", name, f"_Z{len(name)}{name}"
    for name in ("ncclDevKernel_AllGather_RING_LL", "ncclDevKernel_Broadcast_RING_LL"):
        yield f"{name}(ncclDevKernelArgsStorage<(unsigned long)4096>)", name, f"_Z{len(name)}{name}"


def _elementwise() -> Iterator[KernelName]:
    """Name PyTorch's generated elementwise kernels."""
    functors = (
        "at::native::CUDAFunctor_add<c10::BFloat16>",
        "at::native::FillFunctor<int>",
        "at::native::FillFunctor<long>",
        "at::native::bfloat16_copy_kernel_cuda(at::TensorIteratorBase &)::"
        "[lambda(float) (instance 1)]",
        "at::native::BinaryFunctor<float, float, float, at::native::binary_internal::MulFunctor"
        "<float>>",
    )
    for functor, width in product(functors, (2, 4, 8)):
        arguments = f"(int){width}, {functor}, std::array<char *, (unsigned long)3>"
        yield _template("at::native", "vectorized_elementwise_kernel", arguments, "int, T2, T3")
        yield _template("at::native", "unrolled_elementwise_kernel", arguments, "int, T2, T3")


def _triton() -> Iterator[KernelName]:
    """Name kernels compiled by Triton: Inductor's and the scheduler's own."""
    bodies = ("add", "_to_copy_add_mean_mul_pow_rsqrt", "cat_index_put", "mul_silu_slice", "sum")
    for kind, body, number in product(("poi", "red", "per"), bodies, range(6)):
        yield _plain(f"triton_{kind}_fused_{body}_{number}")
    for name in ("_compute_slot_mapping_kernel", "_prepare_pos_seq_lens_kernel"):
        yield _plain(name)


def _sampling() -> Iterator[KernelName]:
    """Name the kernels that turn logits into tokens."""
    for width in (512, 1024):
        arguments = f"(unsigned int){width}, (cub::BlockScanAlgorithm)1, float, int"
        for short in ("TopKTopPSamplingFromProbKernel", "TopPRenormProbKernel", "OnlineSoftmax"):
            yield _template("flashinfer::sampling", short, arguments, "T3 *, T4 *, float, int")
    for limit in (256, 512):
        arguments = f"(int){limit}, (int)1, at::native::ReduceOp<float, at::native::ArgMaxOps>"
        yield _template("at::native", "reduce_kernel", arguments, "T3")
