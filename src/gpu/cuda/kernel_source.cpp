#include "gpu/cuda/kernel_source.h"

namespace rooftile::gpu::cuda {

// Conversions are written out, so that no CUDA header is needed. IN and OUT are the element types,
// INPUTS the operands of elementwise kernels, MODE the kind of row kernel.
const char* const kKernelSource = R"cuda(
struct bf16 { unsigned short bits; };
struct fp16 { unsigned short bits; };
struct fp8 { unsigned char bits; };
struct byte1 { signed char bits; };
using fp32 = float;
using fp64 = double;
using int64 = long long;

__device__ float widen(float x) { return x; }
__device__ float widen(double x) { return (float)x; }
__device__ float widen(bf16 x) { return __uint_as_float((unsigned)x.bits << 16); }
__device__ float widen(fp16 x) {
  float wide;
  asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(x.bits));
  return wide;
}
__device__ float widen(byte1 x) { return (float)x.bits; }
__device__ float widen(fp8 x) {  // e4m3 without subnormals
  unsigned bits = x.bits, sign = (bits & 0x80u) << 24;
  return (bits & 0x7fu) < 8 ? 0.f : __uint_as_float(sign | (((bits & 0x7fu) + (120u << 3)) << 20));
}

__device__ void narrow(float x, float& out) { out = x; }
__device__ void narrow(float x, double& out) { out = x; }
__device__ void narrow(float x, bf16& out) {
  unsigned bits = __float_as_uint(x);
  out.bits = (unsigned short)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
__device__ void narrow(float x, fp16& out) {
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(out.bits) : "f"(x));
}
__device__ void narrow(float x, byte1& out) { out.bits = (signed char)x; }
__device__ void narrow(float x, fp8& out) {  // e4m3, truncated, saturated
  unsigned bits = __float_as_uint(x), sign = (bits >> 24) & 0x80u;
  int low = (int)((bits & 0x7fffffffu) >> 20) - (120 << 3);
  out.bits = (unsigned char)(sign | (unsigned)(low < 8 ? 0 : low > 0x7e ? 0x7e : low));
}

template <class T, int N> struct alignas(sizeof(T) * N) Vec { T v[N]; };

#ifndef IN
#define IN fp32
#endif
#ifndef OUT
#define OUT IN
#endif
#ifndef INPUTS
#define INPUTS 1
#endif
#ifndef MODE
#define MODE 0
#endif
#ifndef VECTOR
#define VECTOR 1
#endif
constexpr int kVector = VECTOR;
constexpr int kUnroll = 4;

#ifdef ELEMENTWISE
#if INPUTS == 3
#define OPERANDS const IN *a, const IN *b, const IN *c
#elif INPUTS == 2
#define OPERANDS const IN *a, const IN *b
#else
#define OPERANDS const IN *a
#endif
extern "C" __global__ void elementwise(OPERANDS, OUT* out, int64 n) {
  int64 first = ((int64)blockIdx.x * kUnroll * blockDim.x + threadIdx.x) * kVector;
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    int64 i = first + (int64)u * blockDim.x * kVector;
    if (i + kVector > n) {
      for (int64 j = i; j < n && j < i + kVector; ++j) narrow(widen(a[j]), out[j]);
      continue;
    }
    Vec<IN, kVector> x = *(const Vec<IN, kVector>*)(a + i);
#if INPUTS > 1
    Vec<IN, kVector> y = *(const Vec<IN, kVector>*)(b + i);
#endif
#if INPUTS > 2
    Vec<IN, kVector> z = *(const Vec<IN, kVector>*)(c + i);
#endif
    Vec<OUT, kVector> result;
#pragma unroll
    for (int j = 0; j < kVector; ++j) {
      float value = widen(x.v[j]);
#if INPUTS > 1
      value += widen(y.v[j]);
#else
      value = value > 0.f ? value : 0.f;
#endif
#if INPUTS > 2
      value *= widen(z.v[j]);
#endif
      narrow(value, result.v[j]);
    }
    *(Vec<OUT, kVector>*)(out + i) = result;
  }
}
#endif

struct Add { __device__ float operator()(float a, float b) const { return a + b; } };
struct Max { __device__ float operator()(float a, float b) const { return a > b ? a : b; } };

template <class F> __device__ float over_warp(float x, F f) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) x = f(x, __shfl_xor_sync(0xffffffffu, x, step));
  return x;
}

template <class F> __device__ float over_block(float x, F f, float neutral) {
  __shared__ float parts[32];
  x = over_warp(x, f);
  __syncthreads();
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
  __syncthreads();
  x = threadIdx.x % 32 < blockDim.x / 32 ? parts[threadIdx.x % 32] : neutral;
  return over_warp(x, f);
}

// One block per row; the row is read again for the second pass, from L1 or L2.
#ifdef ROWS
template <class F> __device__ void each(const IN* row, int64 columns, F f) {
  for (int64 i = (int64)threadIdx.x * kVector; i < columns; i += (int64)blockDim.x * kVector) {
    Vec<IN, kVector> x = *(const Vec<IN, kVector>*)(row + i);
#pragma unroll
    for (int j = 0; j < kVector; ++j) f(i, j, widen(x.v[j]));
  }
}

extern "C" __global__ void rows(const IN* in, const fp32* weight, const fp32* bias, OUT* out,
                                int64 columns) {
  const IN* row = in + (int64)blockIdx.x * columns;
  OUT* result = out + (int64)blockIdx.x * columns;
  float scale, shift = 0.f;
#if MODE == 0  // softmax: one pass for maximum and sum together
  float top = -3e38f, sum = 0.f;
  each(row, columns, [&](int64, int, float x) {
    float higher = top > x ? top : x;
    sum = sum * __expf(top - higher) + __expf(x - higher);
    top = higher;
  });
  float all = over_block(top, Max(), -3e38f);
  sum = over_block(sum * __expf(top - all), Add(), 0.f);
  shift = all;
  scale = 1.f / sum;
#else  // 1: layer norm, 2: RMS norm
  float sum = 0.f, squares = 0.f;
  each(row, columns, [&](int64, int, float x) {
    sum += x;
    squares += x * x;
  });
  squares = over_block(squares, Add(), 0.f) / (float)columns;
#if MODE == 1
  shift = over_block(sum, Add(), 0.f) / (float)columns;
  squares -= shift * shift;
#endif
  scale = rsqrtf(squares + 1e-5f);
#endif
  Vec<OUT, kVector> ready;
  each(row, columns, [&](int64 i, int j, float x) {
#if MODE == 0
    float value = __expf(x - shift) * scale;
#elif MODE == 1
    float value = (x - shift) * scale * weight[i + j] + bias[i + j];
#else
    float value = x * scale * weight[i + j];
#endif
    narrow(value, ready.v[j]);
    if (j == kVector - 1) *(Vec<OUT, kVector>*)(result + i) = ready;
  });
}

extern "C" __global__ void reduce(const IN* in, OUT* out, int64 columns) {
  float sum = 0.f;
  each(in + (int64)blockIdx.x * columns, columns, [&](int64, int, float x) { sum += x; });
  sum = over_block(sum, Add(), 0.f);
  if (threadIdx.x == 0) narrow(sum, out[blockIdx.x]);
}
#endif

// [batch, rows, columns] to [batch, columns, rows], tile by tile through shared memory.
#ifdef TRANSPOSE
extern "C" __global__ void transpose(const IN* in, IN* out, int64 row_count, int64 columns) {
  __shared__ IN tile[32][33];
  int64 tiles_across = (columns + 31) / 32, tiles_down = (row_count + 31) / 32;
  int64 block = blockIdx.x, batch = block / (tiles_across * tiles_down);
  int64 c0 = block % tiles_across * 32, r0 = block / tiles_across % tiles_down * 32;
  const IN* from = in + batch * row_count * columns;
  IN* to = out + batch * row_count * columns;
  int lane = threadIdx.x % 32, line = threadIdx.x / 32, lines = blockDim.x / 32;
  for (int i = line; i < 32; i += lines) {
    if (r0 + i < row_count && c0 + lane < columns) {
      tile[i][lane] = from[(r0 + i) * columns + c0 + lane];
    }
  }
  __syncthreads();
  for (int i = line; i < 32; i += lines) {
    if (c0 + i < columns && r0 + lane < row_count) {
      to[(c0 + i) * row_count + r0 + lane] = tile[lane][i];
    }
  }
}
#endif

#ifdef GATHER
extern "C" __global__ void gather(const IN* table, const int64* index, IN* out, int64 width) {
  const IN* row = table + index[blockIdx.x] * width;
  IN* to = out + (int64)blockIdx.x * width;
  for (int64 i = (int64)threadIdx.x * kVector; i < width; i += (int64)blockDim.x * kVector) {
    *(Vec<IN, kVector>*)(to + i) = *(const Vec<IN, kVector>*)(row + i);
  }
}
#endif

__device__ unsigned scramble(unsigned x) {
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return x ^ (x >> 16);
}

#ifdef FILL
extern "C" __global__ void fill(IN* out, int64 n, int64 below) {
  int64 i = (int64)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned bits = scramble((unsigned)i + (unsigned)(i >> 32) * 977u);
#ifdef FILL_INDEX
  out[i] = (int64)(bits % (unsigned)below);
#else
  narrow((float)(int)bits * (1.f / 2147483648.f), out[i]);
#endif
}
#endif
)cuda";

}  // namespace rooftile::gpu::cuda
