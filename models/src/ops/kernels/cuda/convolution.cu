// Convolution of pictures as products of tiles, for bf16 and f16 on GPUs of compute capability 8.0 or newer. What an output is
// computed from is read where it lies in the picture, 16 bytes at a time: no patches are written to memory.
//
// Letters: as in `convolution.rs`. x is [n, h, w, c], y is [n, h', w', o]. A product walks over the taps of the kernel, and within
// a tap over the channels, 64 numbers at a time. Sums are f32 and taken in a fixed order, and nothing is added atomically, so that
// a step gives the same bits every time.

#include "shape.cuh"
#include "tiles.cuh"

// Numbers of a line of a tile: 128 bytes, whose 16-byte pieces change places by line (see `Tile` of `flash.cu`).
constexpr int DEPTH = 64, STAGES = 3, PIECE = 8, WARP_ROWS = 64;

__device__ uint32_t piece_at(uint32_t tile, int line, int piece) {
    return tile + line * DEPTH * 2 + ((piece ^ (line & 7)) << 4);
}

// Walks over the steps of a product: `load` fills a stage of shared memory for one step, in the background, and `multiply` uses it,
// while those of the next steps are on their way.
template <typename Load, typename Multiply>
__device__ void in_stages(int steps, const Load& load, const Multiply& multiply) {
#pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        if (stage < steps) load(stage);
        close_copies();
    }
    for (int j = 0; j < steps; ++j) {
        wait_for_copies<STAGES - 2>();
        __syncthreads();
        if (j + STAGES - 1 < steps) load((j + STAGES - 1) % STAGES);
        close_copies();
        multiply(j % STAGES);
    }
}

// Where the places that a block computes read from, and where they are written to. Forward, places of y read x. Backward, places
// of x read the gradient of y; those whose coordinates leave the same rest when divided by the stride meet the same taps and are
// a class of their own.
struct Walk {
    // Of what is read, and what is written.
    int height, width, channels, to_height, to_width;
    // Places of the class down and across, and how far they are apart where they are written.
    int down, across, apart, first_down, first_across;
    // From place to place, and from tap to tap, in what is read. Where the first tap of the first place lies.
    int step, direction, start_down, start_across;
    // Taps of the class, and which of the kernel's they are.
    int taps_down, taps_across, tap_down, tap_across, tap_step, kernel;

    static __device__ Walk forward(Shape s) {
        return {s.height, s.width, s.channels, s.to_height, s.to_width, s.to_height, s.to_width, 1, 0, 0,
                s.stride, 1, -s.padding, -s.padding, s.kernel, s.kernel, 0, 0, 1, s.kernel};
    }
    static __device__ Walk back(Shape s, int of_class) {
        const int down = of_class / s.stride, across = of_class % s.stride;
        const int tap_down = (down + s.padding) % s.stride, tap_across = (across + s.padding) % s.stride;
        const auto places = [&](int side, int first) { return side > first ? (side - first + s.stride - 1) / s.stride : 0; };
        return {s.to_height, s.to_width, s.outputs, s.height, s.width, places(s.height, down), places(s.width, across),
                s.stride, down, across, 1, -1, (down + s.padding - tap_down) / s.stride,
                (across + s.padding - tap_across) / s.stride, places(s.kernel, tap_down), places(s.kernel, tap_across),
                tap_down, tap_across, s.stride, s.kernel};
    }
};

// The product of places with weights [outputs, kernel kernel channels] -> [places, outputs]. A warp has 64 places by WN outputs.
template <typename T, int WARPS_M, int WARPS_N, int WN>
__device__ void multiply_places(const T* from, const T* weights, const float* bias, T* to, Walk walk, int pictures,
                                int outputs) {
    constexpr int BM = WARP_ROWS * WARPS_M, BN = WN * WARPS_N, THREADS = 32 * WARPS_M * WARPS_N, LINES = THREADS / 8;
    constexpr int BYTES = (BM + BN) * DEPTH * 2;
    extern __shared__ __align__(128) unsigned char memory[];
    __shared__ int written[BM];
    const int tiles_across = (outputs + BN - 1) / BN, of_picture = walk.down * walk.across;
    const int places = pictures * of_picture;
    const int first = int(blockIdx.x) / tiles_across * BM, first_output = int(blockIdx.x) % tiles_across * BN;
    if (first >= places) return;
    const uint32_t base = shared_address(memory);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warp_m = warp % WARPS_M, warp_n = warp / WARPS_M;
    const int piece = threadIdx.x % 8, line = threadIdx.x / 8;

    // The lines of a tile that this thread copies: the place of its first tap, which may lie outside.
    int at[BM / LINES], top[BM / LINES], left[BM / LINES];
#pragma unroll
    for (int i = 0; i < BM / LINES; ++i) {
        const int place = first + line + i * LINES, picture = place / of_picture, rest = place - picture * of_picture;
        const int down = rest / walk.across, across = rest - down * walk.across;
        top[i] = down * walk.step + walk.start_down, left[i] = across * walk.step + walk.start_across;
        at[i] = ((picture * walk.height + top[i]) * walk.width + left[i]) * walk.channels;
        // Where there is no place, nothing is there to be read.
        if (place >= places) top[i] = -(1 << 28);
        if (piece == 0) {
            const int i_to = walk.first_down + down * walk.apart, j_to = walk.first_across + across * walk.apart;
            written[line + i * LINES] = place < places ? (picture * walk.to_height + i_to) * walk.to_width + j_to : -1;
        }
    }
    // Which numbers of the taps it copies next.
    int channel = piece * PIECE, tap_down = 0, tap_across = 0;
    const int depth = walk.kernel * walk.kernel * walk.channels;
    const auto come_to_tap = [&] {
        while (channel >= walk.channels) {
            channel -= walk.channels;
            if (++tap_across == walk.taps_across) tap_across = 0, ++tap_down;
        }
    };
    come_to_tap();
    const auto load = [&](int stage) {
        const uint32_t a = base + stage * BYTES, b = a + BM * DEPTH * 2;
        const bool left_over = tap_down < walk.taps_down;
        const int down = walk.direction * tap_down, across = walk.direction * tap_across;
        const int moved = (down * walk.width + across) * walk.channels + channel;
#pragma unroll
        for (int i = 0; i < BM / LINES; ++i) {
            const bool there = left_over && uint32_t(top[i] + down) < uint32_t(walk.height) &&
                               uint32_t(left[i] + across) < uint32_t(walk.width);
            copy_piece(piece_at(a, line + i * LINES, piece), there ? from + at[i] + moved : from, there);
        }
        const int tap = (walk.tap_down + walk.tap_step * tap_down) * walk.kernel + walk.tap_across +
                        walk.tap_step * tap_across;
        const T* weight = weights + size_t(first_output + line) * depth + tap * walk.channels + channel;
#pragma unroll
        for (int i = 0; i < BN / LINES; ++i) {
            const bool there = left_over && first_output + line + i * LINES < outputs;
            copy_piece(piece_at(b, line + i * LINES, piece), there ? weight + size_t(i) * LINES * depth : weights, there);
        }
        channel += DEPTH;
        come_to_tap();
    };

    const int steps = (walk.taps_down * walk.taps_across * walk.channels + DEPTH - 1) / DEPTH;
    float sums[4][WN / 8][4] = {};
    in_stages(steps, load, [&](int stage) {
        const uint32_t a = base + stage * BYTES, b = a + BM * DEPTH * 2;
#pragma unroll
        for (int k = 0; k < DEPTH / 16; ++k) {
            uint32_t left_of[4][4];
#pragma unroll
            for (int m = 0; m < 4; ++m) {
                read_matrices(left_of[m], piece_at(a, warp_m * WARP_ROWS + m * 16 + (lane & 15), 2 * k + (lane >> 4)));
            }
#pragma unroll
            for (int n = 0; n < WN / 16; ++n) {
                uint32_t right[4];
                const int row = warp_n * WN + n * 16 + (lane & 7) + ((lane >> 4) << 3);
                read_matrices(right, piece_at(b, row, 2 * k + ((lane >> 3) & 1)));
#pragma unroll
                for (int m = 0; m < 4; ++m) {
                    Matrix<T>::multiply(sums[m][2 * n], left_of[m], right[0], right[1]);
                    Matrix<T>::multiply(sums[m][2 * n + 1], left_of[m], right[2], right[3]);
                }
            }
        }
    });

    // Through shared memory, so that lines are written in whole pieces.
    wait_for_copies<0>();
    __syncthreads();
    constexpr int APART = BN + PIECE;
    T* lines = reinterpret_cast<T*>(memory);
#pragma unroll
    for (int n = 0; n < WN / 8; ++n) {
        const int column = warp_n * WN + n * 8 + (lane & 3) * 2;
        const bool has_bias = bias != nullptr && first_output + column < outputs;
        const float low = has_bias ? bias[first_output + column] : 0, high = has_bias ? bias[first_output + column + 1] : 0;
#pragma unroll
        for (int m = 0; m < 4; ++m) {
            const int row = warp_m * WARP_ROWS + m * 16 + (lane >> 2);
            const float(&sum)[4] = sums[m][n];
            *reinterpret_cast<uint32_t*>(lines + row * APART + column) = Matrix<T>::pair(sum[0] + low, sum[1] + high);
            *reinterpret_cast<uint32_t*>(lines + (row + 8) * APART + column) =
                Matrix<T>::pair(sum[2] + low, sum[3] + high);
        }
    }
    __syncthreads();
    constexpr int PIECES = BN / PIECE;
#pragma unroll 4
    for (int i = threadIdx.x; i < BM * PIECES; i += THREADS) {
        const int row = i / PIECES, column = i % PIECES * PIECE;
        if (written[row] < 0 || first_output + column >= outputs) continue;
        *reinterpret_cast<uint4*>(to + size_t(written[row]) * outputs + first_output + column) =
            *reinterpret_cast<const uint4*>(lines + row * APART + column);
    }
}

// The gradient of the weights: for a share of the places, the product of their gradients [places, o] with what they were computed
// from -> parts [shares, o, kernel kernel c]. A warp has 64 outputs by WN numbers of depth.
template <typename T, int WARPS_M, int WARPS_N, int WN>
__device__ void multiply_gradients(const T* gradient, const T* x, float* parts, Shape shape, int steps_of_share) {
    constexpr int BM = WARP_ROWS * WARPS_M, BN = WN * WARPS_N, THREADS = 32 * WARPS_M * WARPS_N, LINES = THREADS / 8;
    // Tiles have a line for each of 64 places, and as many of them lie side by side as the block is wide.
    constexpr int TILE = DEPTH * DEPTH * 2, BYTES = (BM + BN) / DEPTH * TILE, OF_LINES = DEPTH / LINES;
    extern __shared__ __align__(128) unsigned char memory[];
    const Walk walk = Walk::forward(shape);
    const int outputs = shape.outputs, depth = shape.kernel * shape.kernel * shape.channels;
    const int of_picture = walk.down * walk.across, places = shape.pictures * of_picture;
    const int tiles_across = (depth + BN - 1) / BN;
    const int first_output = int(blockIdx.x) / tiles_across * BM, first_number = int(blockIdx.x) % tiles_across * BN;
    const int begin = int(blockIdx.y) * steps_of_share;
    const int steps = max(0, min(steps_of_share, (places + DEPTH - 1) / DEPTH - begin));
    const uint32_t base = shared_address(memory);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warp_m = warp % WARPS_M, warp_n = warp / WARPS_M;
    const int piece = threadIdx.x % 8, line = threadIdx.x / 8;

    // The taps and channels of its pieces stay the same; its places move on by 64.
    int tap_down[BN / DEPTH], tap_across[BN / DEPTH], channel[BN / DEPTH];
#pragma unroll
    for (int i = 0; i < BN / DEPTH; ++i) {
        const int number = first_number + i * DEPTH + piece * PIECE, tap = number / shape.channels;
        channel[i] = number - tap * shape.channels;
        // Beyond the last tap nothing is there.
        tap_down[i] = number < depth ? tap / shape.kernel : -(1 << 28);
        tap_across[i] = tap % shape.kernel;
    }
    int picture[OF_LINES], down[OF_LINES], across[OF_LINES];
#pragma unroll
    for (int i = 0; i < OF_LINES; ++i) {
        const int place = begin * DEPTH + line + i * LINES, rest = place % of_picture;
        picture[i] = place / of_picture, down[i] = rest / walk.across, across[i] = rest % walk.across;
    }
    const int pictures_on = DEPTH / of_picture, down_on = DEPTH % of_picture / walk.across,
              across_on = DEPTH % of_picture % walk.across;
    int next = begin * DEPTH + line;
    const auto load = [&](int stage) {
        const uint32_t a = base + stage * BYTES, b = a + BM / DEPTH * TILE;
#pragma unroll
        for (int i = 0; i < OF_LINES; ++i) {
            const int place = next + i * LINES;
            const bool exists = place < places;
            const T* numbers = gradient + size_t(place) * outputs + first_output + piece * PIECE;
#pragma unroll
            for (int tile = 0; tile < BM / DEPTH; ++tile) {
                const bool there = exists && first_output + tile * DEPTH + piece * PIECE < outputs;
                copy_piece(piece_at(a + tile * TILE, line + i * LINES, piece), there ? numbers + tile * DEPTH : gradient, there);
            }
#pragma unroll
            for (int tile = 0; tile < BN / DEPTH; ++tile) {
                const int row = down[i] * shape.stride - shape.padding + tap_down[tile];
                const int column = across[i] * shape.stride - shape.padding + tap_across[tile];
                const bool there = exists && uint32_t(row) < uint32_t(shape.height) && uint32_t(column) < uint32_t(shape.width);
                const int at = ((picture[i] * shape.height + row) * shape.width + column) * shape.channels + channel[tile];
                copy_piece(piece_at(b + tile * TILE, line + i * LINES, piece), there ? x + at : x, there);
            }
            across[i] += across_on, down[i] += down_on, picture[i] += pictures_on;
            if (across[i] >= walk.across) across[i] -= walk.across, ++down[i];
            if (down[i] >= walk.down) down[i] -= walk.down, ++picture[i];
        }
        next += DEPTH;
    };

    float sums[4][WN / 8][4] = {};
    in_stages(steps, load, [&](int stage) {
        const uint32_t a = base + stage * BYTES, b = a + BM / DEPTH * TILE;
        const auto piece_of = [&](uint32_t tiles, int place, int number) {
            return piece_at(tiles + number / DEPTH * TILE, place, number % DEPTH / PIECE);
        };
#pragma unroll
        for (int k = 0; k < DEPTH / 16; ++k) {
            uint32_t left[4][4];
#pragma unroll
            for (int m = 0; m < 4; ++m) {
                const int place = k * 16 + (lane & 7) + ((lane >> 4) << 3);
                read_transposed(left[m], piece_of(a, place, warp_m * WARP_ROWS + m * 16 + ((lane >> 3) & 1) * 8));
            }
#pragma unroll
            for (int n = 0; n < WN / 16; ++n) {
                uint32_t right[4];
                read_transposed(right, piece_of(b, k * 16 + (lane & 15), warp_n * WN + n * 16 + (lane >> 4) * 8));
#pragma unroll
                for (int m = 0; m < 4; ++m) {
                    Matrix<T>::multiply(sums[m][2 * n], left[m], right[0], right[1]);
                    Matrix<T>::multiply(sums[m][2 * n + 1], left[m], right[2], right[3]);
                }
            }
        }
    });
    float* part = parts + size_t(blockIdx.y) * outputs * depth;
#pragma unroll
    for (int m = 0; m < 4; ++m) {
#pragma unroll
        for (int n = 0; n < WN / 8; ++n) {
            const int output = first_output + warp_m * WARP_ROWS + m * 16 + (lane >> 2);
            const int number = first_number + warp_n * WN + n * 8 + (lane & 3) * 2;
            if (number >= depth) continue;
            const float(&sum)[4] = sums[m][n];
            if (output < outputs) *reinterpret_cast<float2*>(part + size_t(output) * depth + number) = {sum[0], sum[1]};
            if (output + 8 < outputs) {
                *reinterpret_cast<float2*>(part + size_t(output + 8) * depth + number) = {sum[2], sum[3]};
            }
        }
    }
}

#define FOR_TILE(T, NAME, SIZE, WARPS_M, WARPS_N, WN)                                                                  \
    extern "C" __global__ __launch_bounds__(32 * WARPS_M * WARPS_N, 2) void convolution_##SIZE##_##NAME(               \
        const T* x, const T* weights, const float* bias, T* y, Shape shape) {                                          \
        multiply_places<T, WARPS_M, WARPS_N, WN>(x, weights, bias, y, Walk::forward(shape), shape.pictures,            \
                                                 shape.outputs);                                                       \
    }                                                                                                                  \
    extern "C" __global__ __launch_bounds__(32 * WARPS_M * WARPS_N, 2) void convolution_back_##SIZE##_##NAME(          \
        const T* gradient, const T* weights, T* dx, Shape shape) {                                                     \
        multiply_places<T, WARPS_M, WARPS_N, WN>(gradient, weights, nullptr, dx, Walk::back(shape, blockIdx.y),        \
                                                 shape.pictures, shape.channels);                                      \
    }

#define FOR_DTYPE(T, NAME)                                                                                             \
    FOR_TILE(T, NAME, 64, 2, 2, 32)                                                                                    \
    FOR_TILE(T, NAME, 128, 2, 2, 64)                                                                                   \
    extern "C" __global__ __launch_bounds__(128, 2) void convolution_weights_64_##NAME(                                \
        const T* gradient, const T* x, float* parts, Shape shape, int steps) {                                         \
        multiply_gradients<T, 1, 4, 32>(gradient, x, parts, shape, steps);                                             \
    }                                                                                                                  \
    extern "C" __global__ __launch_bounds__(128, 2) void convolution_weights_128_##NAME(                               \
        const T* gradient, const T* x, float* parts, Shape shape, int steps) {                                         \
        multiply_gradients<T, 2, 2, 64>(gradient, x, parts, shape, steps);                                             \
    }

FOR_DTYPE(__nv_bfloat16, bf16)
FOR_DTYPE(__half, f16)
