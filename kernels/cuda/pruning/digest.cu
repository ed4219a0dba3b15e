/* SPDX-License-Identifier: BSD-3-Clause */
/* CRC-32C of pieces, a block per piece: each thread has a stretch of it, byte by byte with a table of 256 words in shared
 * memory (2 KiB with what threads leave there). Without its two inversions a CRC is linear: the piece's is the sum (xor) of
 * the stretches', each multiplied by x^8 as often as bytes follow it (modulo the polynomial), and of what the inversion in
 * front becomes. */
#include "kernels/cuda/cu.h"

#define THREADS 256 /* of a block */
#define POLYNOMIAL 0x82f63b78u /* CRC-32C, bit 31 is x^0 */
#define ONE 0x80000000u /* x^0 */

/* a b modulo the polynomial. */
static __device__ __forceinline__ uint32_t times(uint32_t a, uint32_t b)
{
    uint32_t product = 0;

    for (; a; a <<= 1) {
        if (a & ONE)
            product ^= b;
        b = b & 1 ? b >> 1 ^ POLYNOMIAL : b >> 1;
    }
    return product;
}

/* crc times x^(8 bytes). */
static __device__ __forceinline__ uint32_t followed_by(uint32_t crc, uint64_t bytes)
{
    uint32_t power = ONE >> 8; /* x^8, then its squares */

    for (; bytes; bytes >>= 1) {
        if (bytes & 1)
            crc = times(power, crc);
        power = times(power, power);
    }
    return crc;
}

static __global__ void __launch_bounds__(THREADS)
    digest_kernel(int64_t bytes, int64_t piece, uint32_t *crc, const unsigned char *x)
{
    DP_SHARED(uint32_t, table, [256]);
    DP_SHARED(uint32_t, part, [THREADS]);
    const int thread = (int)threadIdx.x;
    const int64_t at = (int64_t)blockIdx.x * piece, here = bytes - at < piece ? bytes - at : piece;
    const int64_t each = (here + THREADS - 1) / THREADS, first = thread * each < here ? thread * each : here;
    const int64_t end = first + each < here ? first + each : here;
    uint32_t sum = (uint32_t)thread;

    for (int i = 0; i < 8; i++)
        sum = sum & 1 ? sum >> 1 ^ POLYNOMIAL : sum >> 1;
    table[thread] = sum;
    __syncthreads();
    sum = 0;
    for (int64_t i = first; i < end; i++)
        sum = sum >> 8 ^ table[(sum ^ x[at + i]) & 255];
    sum = followed_by(sum, (uint64_t)(here - end));
    part[thread] = thread ? sum : sum ^ followed_by(UINT32_MAX, (uint64_t)here);
    for (int half = THREADS / 2; half; half /= 2) {
        __syncthreads();
        if (thread < half)
            part[thread] ^= part[thread + half];
    }
    if (thread == 0)
        crc[blockIdx.x] = ~part[0];
}

int dp_cuda_digest(struct dp_backend *be, const struct dp_digest *a, struct dp_err *err)
{
    struct dp_cuda *cu = dp_cuda_begin(be, "digest", err);

    if (!cu)
        return -1;
    if (a->bytes < 0 || a->piece < 1)
        return dp_cuda_refuse(cu, err, "%lld bytes in pieces of %lld", (long long)a->bytes, (long long)a->piece);
    return DP_LAUNCH(cu, err, digest_kernel, dp_blocks(a->bytes, a->piece), THREADS, 0, a->bytes, a->piece, a->crc, a->x);
}
