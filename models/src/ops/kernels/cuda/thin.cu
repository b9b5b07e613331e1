// Products with thin matrices, of which adapters are made, for bf16 and f16 on GPUs of compute capability 8.0 or newer.
//
// All are of a wide matrix [n, w], a thin one [n, r] and the matrix M [r, w] between them, with few columns r: too few to fill
// the tiles of a library for large products, which then launches twice, to add up parts. Here those of several layers are one launch.
// Sums are f32 and taken in a fixed order, so that a step gives the same bits every time.

#include "packs.cuh"
#include "thin.cuh"
#include "tiles.cuh"

constexpr int THREADS = 256, WARPS = THREADS / 32;

// Columns of a thin matrix that a block has at most, unless it goes up, and tiles of eight of them.
constexpr int RANKS = 32, RANK_TILES = RANKS / 8;

// thin = s wide Mᵀ. A block has 16 rows, and each of its warps a part of the columns of `wide`. Which of 32 columns a lane reads does
// not matter to their sum, as long as it is the same for both matrices: a lane takes eight side by side.
constexpr int STEP = 64;

// Numbers of a row of M as a lane takes them: in T, or in f32, and only of rows that are `there`.
template <typename T> __device__ uint4 read_row(const T* from, bool there) {
    return there ? *reinterpret_cast<const uint4*>(from) : uint4{0, 0, 0, 0};
}
template <typename T> __device__ uint4 read_row(const float* from, bool there) {
    if (!there) return {0, 0, 0, 0};
    float of[PACK];
    read_pack(from, of);
    return {Matrix<T>::pair(of[0], of[1]), Matrix<T>::pair(of[2], of[3]), Matrix<T>::pair(of[4], of[5]),
            Matrix<T>::pair(of[6], of[7])};
}

template <typename T, typename M> __device__ void thin_down(const Piece& piece, int rows) {
    // Eight numbers more in a row, so that lanes write to different banks.
    __shared__ float parts[WARPS][16][RANKS + 8];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, line = lane >> 2, first = blockIdx.x * 16;
    const int width = piece.width, tiles = piece.ranks / 8;
    const T* above = static_cast<const T*>(piece.wide) + size_t(first + line) * piece.wide_apart;
    const T* below = above + 8 * piece.wide_apart;
    const M* matrix = static_cast<const M*>(piece.matrix) + size_t(line) * width;
    const bool has_above = first + line < rows, has_below = first + line + 8 < rows;
    float sums[RANK_TILES][4] = {};
    for (int start = warp * STEP; start < width; start += WARPS * STEP) {
#pragma unroll
        for (int half = 0; half < STEP; half += 32) {
            const int column = start + half + (lane & 3) * 8;
            const bool there = column < width;
            const uint4 a = read_row<T>(above + column, there && has_above);
            const uint4 b = read_row<T>(below + column, there && has_below);
            const uint32_t low[4] = {a.x, b.x, a.y, b.y}, high[4] = {a.z, b.z, a.w, b.w};
#pragma unroll
            for (int tile = 0; tile < RANK_TILES; ++tile) {
                if (tile >= tiles) break;
                const bool is_wanted = there && tile * 8 + line < piece.wanted;
                const uint4 m = read_row<T>(matrix + size_t(tile) * 8 * width + column, is_wanted);
                Matrix<T>::multiply(sums[tile], low, m.x, m.y);
                Matrix<T>::multiply(sums[tile], high, m.z, m.w);
            }
        }
    }
#pragma unroll
    for (int tile = 0; tile < RANK_TILES; ++tile) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            parts[warp][line + (i < 2 ? 0 : 8)][tile * 8 + (lane & 3) * 2 + (i & 1)] = sums[tile][i];
        }
    }
    __syncthreads();
    for (int at = threadIdx.x; at < 16 * RANKS; at += THREADS) {
        const int row = first + at / RANKS, rank = at % RANKS;
        if (rank >= piece.ranks || row >= rows) continue;
        float sum = 0;
#pragma unroll
        for (int part = 0; part < WARPS; ++part) sum += parts[part][at / RANKS][rank];
        static_cast<T*>(piece.thin)[row * piece.thin_apart + rank] = T(sum * piece.scale);
    }
}

// wide = s thin M, or added to it, by at most 16 STEPS ranks. A warp has 64 columns and several times 16 rows. Which of these columns a
// lane gets does not matter either: column n of the product of tile j is 8 n + j, so that a lane reads M by packs, and reads and
// writes two packs of a row.
constexpr int UP_COLUMNS = 64;

template <typename T, int STEPS> __device__ void thin_up(const Products& products, int rows, int tiles, bool adds) {
    const Piece& piece = products.of[blockIdx.y];
    const int lane = threadIdx.x % 32, line = lane >> 2, quarter = lane & 3, width = piece.width, ranks = piece.ranks;
    const int across = (width + UP_COLUMNS - 1) / UP_COLUMNS, warp = blockIdx.x * WARPS + threadIdx.x / 32;
    const int column = warp % across * UP_COLUMNS, first = warp / across * tiles * 16;
    if (first >= rows) return;
    const T* matrix = static_cast<const T*>(piece.matrix) + column + line * PACK;
    const bool has_line = column + line * PACK < width;
    uint32_t right[STEPS][PACK][2];
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
        if (step * 16 >= ranks) break;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int rank = step * 16 + half * 8 + quarter * 2;
            const bool there = has_line && rank < ranks;
            Pack<T> even = {}, odd = {};
            if (there) {
                even = pack_at(matrix + size_t(rank) * width);
                odd = pack_at(matrix + size_t(rank + 1) * width);
            }
#pragma unroll
            for (int j = 0; j < PACK; ++j) {
                right[step][j][half] = Matrix<T>::pair(float(even.of[j]), float(odd.of[j]));
            }
        }
    }
    const int mine = column + quarter * 2 * PACK;
    for (int tile = 0; tile < tiles; ++tile) {
        const int above = first + tile * 16 + line, below = above + 8;
        if (first + tile * 16 >= rows) return;
        const T* thin = static_cast<const T*>(piece.thin) + quarter * 2;
        float sums[PACK][4] = {};
#pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            if (step * 16 >= ranks) break;
            const auto pair = [=](int row, int rank) {
                const T* from = thin + row * piece.thin_apart + rank;
                return row < rows && rank < ranks ? *reinterpret_cast<const uint32_t*>(from) : 0u;
            };
            const uint32_t left[4] = {pair(above, step * 16), pair(below, step * 16), pair(above, step * 16 + 8),
                                      pair(below, step * 16 + 8)};
#pragma unroll
            for (int j = 0; j < PACK; ++j) Matrix<T>::multiply(sums[j], left, right[step][j][0], right[step][j][1]);
        }
#pragma unroll
        for (int half = 0; half < 4; ++half) {
            const int row = half < 2 ? above : below, at = mine + half % 2 * PACK;
            if (row >= rows || at >= width) continue;
            T* to = static_cast<T*>(piece.wide) + row * piece.wide_apart + at;
            float there[PACK] = {};
            if (adds) read_pack(to, there);
#pragma unroll
            for (int j = 0; j < PACK; ++j) there[j] += piece.scale * sums[j][half];
            write_pack(to, there);
        }
    }
}

// The gradient of M in f32: s thinᵀ wide. A block has 32 columns of `wide`, and each of its warps every eighth 16 rows, three times 16
// of which are on their way or there.
constexpr int COLUMNS = 32, DEEP = 3;

template <typename T> __device__ void thin_gradient(const Products& products, int rows) {
    extern __shared__ __align__(128) unsigned char memory[];
    const Piece& piece = products.of[blockIdx.y];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, first = blockIdx.x * COLUMNS, tiles = piece.ranks / 8;
    if (first >= piece.width) return;
    const T *wide = static_cast<const T*>(piece.wide), *thin = static_cast<const T*>(piece.thin);
    // 16 rows of four pieces of 16 bytes, which change places by row, so that eight rows of a matrix lie in different banks.
    constexpr int TILE_BYTES = 16 * COLUMNS * 2;
    static_assert(COLUMNS == RANKS);
    const uint32_t mine = shared_address(memory) + warp * DEEP * 2 * TILE_BYTES;
    const auto place = [](uint32_t tile, int row, int part) { return tile + row * 64 + ((part ^ (row >> 1 & 3)) << 4); };
    const auto wide_tile = [=](int step) { return mine + step % DEEP * 2 * TILE_BYTES; };
    const int steps = (rows + 16 * WARPS - 1) / (16 * WARPS);
    const auto load = [=](int step) {
        if (step < steps) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int row = (lane >> 2) + half * 8, part = lane & 3, at = (step * WARPS + warp) * 16 + row;
                const bool wide_there = at < rows && first + part * 8 < piece.width;
                const bool thin_there = at < rows && part < tiles;
                const T* from = wide_there ? wide + at * piece.wide_apart + first + part * 8 : wide;
                copy_piece(place(wide_tile(step), row, part), from, wide_there);
                const T* thin_from = thin_there ? thin + at * piece.thin_apart + part * 8 : thin;
                copy_piece(place(wide_tile(step) + TILE_BYTES, row, part), thin_from, thin_there);
            }
        }
        close_copies();
    };
    // Rows of M's gradient are columns here: [16 columns, 8 ranks].
    float sums[COLUMNS / 16][RANK_TILES][4] = {};
#pragma unroll
    for (int step = 0; step < DEEP - 1; ++step) load(step);
    for (int step = 0; step < steps; ++step) {
        load(step + DEEP - 1);
        wait_for_copies<DEEP - 1>();
        __syncwarp();
        const uint32_t tile = wide_tile(step);
        uint32_t right[RANK_TILES / 2][4];
#pragma unroll
        for (int n = 0; n < RANK_TILES / 2; ++n) {
            read_transposed(right[n], place(tile + TILE_BYTES, lane & 15, 2 * n + (lane >> 4)));
        }
#pragma unroll
        for (int m = 0; m < COLUMNS / 16; ++m) {
            uint32_t left[4];
            read_transposed(left, place(tile, (lane & 7) + ((lane >> 4) << 3), 2 * m + ((lane >> 3) & 1)));
#pragma unroll
            for (int n = 0; n < RANK_TILES / 2; ++n) {
                Matrix<T>::multiply(sums[m][2 * n], left, right[n][0], right[n][1]);
                Matrix<T>::multiply(sums[m][2 * n + 1], left, right[n][2], right[n][3]);
            }
        }
        __syncwarp();
    }
    wait_for_copies<0>();
    __syncthreads();
    // One number more in a row: lanes read side by side in either direction.
    constexpr int APART = COLUMNS + 1;
    static_assert(WARPS * RANKS * APART * 4 <= WARPS * DEEP * 2 * TILE_BYTES);
    float* parts = reinterpret_cast<float*>(memory);
#pragma unroll
    for (int m = 0; m < COLUMNS / 16; ++m) {
#pragma unroll
        for (int n = 0; n < RANK_TILES; ++n) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int column = m * 16 + (lane >> 2) + (i < 2 ? 0 : 8), rank = n * 8 + (lane & 3) * 2 + (i & 1);
                parts[(warp * RANKS + rank) * APART + column] = sums[m][n][i];
            }
        }
    }
    __syncthreads();
    float* to = static_cast<float*>(piece.matrix);
    for (int at = threadIdx.x; at < RANKS * COLUMNS; at += THREADS) {
        // Neighbours write side by side.
        const int rank = piece.turned ? at % RANKS : at / COLUMNS, inside = piece.turned ? at / RANKS : at % COLUMNS;
        const size_t column = first + inside;
        if (rank >= piece.wanted || column >= piece.width) continue;
        float sum = 0;
#pragma unroll
        for (int part = 0; part < WARPS; ++part) sum += parts[(part * RANKS + rank) * APART + inside];
        to[piece.turned ? column * piece.of_row + rank : rank * size_t(piece.width) + column] = sum * piece.scale;
    }
}

#define FOR_DTYPE(T, NAME)                                                                                             \
    extern "C" __global__ void thin_down_##NAME(Products products, int rows) {                                         \
        thin_down<T, T>(products.of[blockIdx.y], rows);                                                                \
    }                                                                                                                  \
    extern "C" __global__ void thin_start_##NAME(Products products, int rows, int downs) {                             \
        const Piece& piece = products.of[blockIdx.y];                                                                  \
        blockIdx.y < downs ? thin_down<T, float>(piece, rows) : convert_piece<T>(piece);                               \
    }                                                                                                                  \
    extern "C" __global__ void thin_up_16_##NAME(Products products, int rows, int tiles, int adds) {                   \
        thin_up<T, 1>(products, rows, tiles, adds != 0);                                                               \
    }                                                                                                                  \
    extern "C" __global__ void thin_up_32_##NAME(Products products, int rows, int tiles, int adds) {                   \
        thin_up<T, 2>(products, rows, tiles, adds != 0);                                                               \
    }                                                                                                                  \
    extern "C" __global__ void thin_up_64_##NAME(Products products, int rows, int tiles, int adds) {                   \
        thin_up<T, 4>(products, rows, tiles, adds != 0);                                                               \
    }                                                                                                                  \
    extern "C" __global__ void thin_gradient_##NAME(Products products, int rows) { thin_gradient<T>(products, rows); }

FOR_DTYPE(__nv_bfloat16, bf16)
FOR_DTYPE(__half, f16)
