// Scores [v] of the tokens that can come next: the likeliest, how many tokens and how much weight there are in buckets below it, and the
// tokens of a bucket. Formulas stand in `ops::scores`.
//
// Weights are whole numbers, so that sums are the same in whatever order threads add.

#include <cfloat>
#include <cstdint>

constexpr unsigned EVERY_LANE = 0xffffffff;
constexpr int WARP = 32;
// As in `scores.rs`: blocks that look for the likeliest, of which each leaves a rank, and the buckets.
constexpr int BLOCKS = 32, BUCKETS = 2048;
constexpr double BUCKETS_PER_POWER = 64, LARGEST_WEIGHT = double(uint64_t(1) << 42);

using Sum = unsigned long long;

// What a bucket holds.
struct Weighed {
    Sum tokens, sum;
};

// How the score of a token is changed.
struct Change {
    unsigned token;
    float added, penalty;
};

// A number whose order is that of a score's and, of equal scores, of the token that comes first. The largest of all is what is no finite
// number.
__device__ Sum rank_of(float score, unsigned token) {
    // The two zeros are equal.
    const unsigned bits = __float_as_uint(score + 0.0f);
    // Bits of negative numbers grow as these fall.
    const unsigned order = !isfinite(score) ? 0xffffffff : bits >> 31 ? ~bits : bits | 0x80000000;
    return Sum(order) << 32 | ~token;
}

__device__ Sum highest_of_lanes(Sum rank) {
    for (int step = WARP / 2; step > 0; step /= 2) rank = max(rank, __shfl_xor_sync(EVERY_LANE, rank, step));
    return rank;
}

// The scores below the highest, by a temperature.
struct Scale {
    double highest, colder;

    __device__ Scale(float highest, float temperature) : highest(highest), colder(1 / double(temperature)) {}
    __device__ double below(float score) const { return (highest - double(score)) * colder; }
    // What is in no bucket is beyond the last.
    __device__ int bucket(float score) const {
        const double at = below(score) * BUCKETS_PER_POWER;
        return at < BUCKETS ? int(at) : BUCKETS;
    }
    __device__ Sum weight(float score) const { return Sum(exp(-below(score)) * LARGEST_WEIGHT); }
};

// The highest rank of a part of the scores, for each block.
extern "C" __global__ void scores_likeliest_f32(const float* scores, Sum* best, int count) {
    Sum highest = 0;
#pragma unroll 4
    for (int token = blockIdx.x * blockDim.x + threadIdx.x; token < count; token += gridDim.x * blockDim.x) {
        highest = max(highest, rank_of(scores[token], token));
    }
    __shared__ Sum of_warp[WARP];
    highest = highest_of_lanes(highest);
    if (threadIdx.x % WARP == 0) of_warp[threadIdx.x / WARP] = highest;
    __syncthreads();
    if (threadIdx.x >= WARP) return;
    highest = highest_of_lanes(threadIdx.x < blockDim.x / WARP ? of_warp[threadIdx.x] : 0);
    if (threadIdx.x == 0) best[blockIdx.x] = highest;
}

// found: the ranks that the kernel before left, and the buckets [BUCKETS], which begin empty.
extern "C" __global__ void scores_buckets_f32(const float* scores, Sum* found, int count, float temperature) {
    __shared__ Weighed held[BUCKETS];
    __shared__ unsigned order;
    for (int at = threadIdx.x; at < BUCKETS; at += blockDim.x) held[at] = {0, 0};
    if (threadIdx.x < BLOCKS) {
        const Sum highest = highest_of_lanes(found[threadIdx.x]);
        if (threadIdx.x == 0) order = unsigned(highest >> 32);
    }
    __syncthreads();
    // Where one is not finite nothing is drawn.
    if (order == 0xffffffff) return;
    const Scale scale(__uint_as_float(order >> 31 ? order & 0x7fffffff : ~order), temperature);
    for (int token = blockIdx.x * blockDim.x + threadIdx.x; token < count; token += gridDim.x * blockDim.x) {
        const float score = scores[token];
        const int at = scale.bucket(score);
        if (at == BUCKETS) continue;
        atomicAdd(&held[at].tokens, 1);
        atomicAdd(&held[at].sum, scale.weight(score));
    }
    __syncthreads();
    Weighed* buckets = reinterpret_cast<Weighed*>(found + BLOCKS);
    for (int at = threadIdx.x; at < BUCKETS; at += blockDim.x) {
        if (held[at].tokens == 0) continue;
        atomicAdd(&buckets[at].tokens, held[at].tokens);
        atomicAdd(&buckets[at].sum, held[at].sum);
    }
}

// The tokens of a bucket with their scores, in any order: found [1 + room], of which the first counts them from 0.
extern "C" __global__ void scores_of_bucket_f32(const float* scores, uint2* found, int count, int bucket, int room, float highest,
                                                float temperature) {
    const Scale scale(highest, temperature);
    for (int token = blockIdx.x * blockDim.x + threadIdx.x; token < count; token += gridDim.x * blockDim.x) {
        const float score = scores[token];
        if (scale.bucket(score) != bucket) continue;
        const unsigned at = atomicAdd(&found->x, 1u);
        if (at < room) found[1 + at] = {unsigned(token), __float_as_uint(score)};
    }
}

// Changes the scores of some tokens, which differ.
extern "C" __global__ void scores_changed_f32(float* scores, const Change* changes, int changed, int count) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= changed || changes[at].token >= unsigned(count)) return;
    const Change change = changes[at];
    const float score = scores[change.token] + change.added;
    const float now = score < 0 ? score * change.penalty : score / change.penalty;
    // One that is not finite stays so, and no other becomes it.
    if (isfinite(score)) scores[change.token] = fminf(fmaxf(now, -FLT_MAX), FLT_MAX);
}
