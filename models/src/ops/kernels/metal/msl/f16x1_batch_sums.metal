// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

typedef half Stored;
typedef float Wide;
struct type_2 {
    Wide inner[512];
};
struct Lane {
    uint column;
    uint line;
    uint lines;
};
struct Sums {
    Wide a;
    Wide b;
};
struct Batch {
    uint rows;
    uint width;
    uint parts;
    uint across;
};
typedef Stored type_3[1];
typedef Wide type_4[1];
constant uint LANES = 1u;
constant uint THREADS = 256u;
constant float FAR_BELOW = -300000000000000000000000000000000000000.0;
constant uint NO_FUNCTION = 4u;

Wide widen(
    Stored x
) {
    return static_cast<float>(x);
}

Lane lane_of(
    uint group_1,
    uint thread_1,
    uint across
) {
    return Lane {(group_1 * across) + (thread_1 % across), thread_1 / across, THREADS / across};
}

Sums over_lines(
    Sums sums,
    uint thread_2,
    uint across_1,
    threadgroup type_2& of_lines
) {
    Sums all = Sums {0.0, 0.0};
    uint at = {};
    of_lines.inner[thread_2] = sums.a;
    of_lines.inner[THREADS + thread_2] = sums.b;
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    at = thread_2 % across_1;
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            uint _e36 = at;
            at = _e36 + across_1;
        }
        loop_init = false;
        uint _e17 = at;
        if (_e17 < THREADS) {
        } else {
            break;
        }
        {
            Wide _e21 = all.a;
            uint _e23 = at;
            Wide _e25 = of_lines.inner[_e23];
            all.a = _e21 + _e25;
            Wide _e28 = all.b;
            uint _e31 = at;
            Wide _e34 = of_lines.inner[THREADS + _e31];
            all.b = _e28 + _e34;
        }
    }
    Sums _e38 = all;
    return _e38;
}

struct f16x1_batch_sumsInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void f16x1_batch_sums(
  metal::uint3 group [[threadgroup_position_in_grid]]
, uint thread_ [[thread_index_in_threadgroup]]
, threadgroup type_2& of_lines
, device type_3 const& x_1 [[buffer(0)]]
, device type_4& sums_1 [[buffer(1)]]
, constant Batch& batch [[buffer(2)]]
) {
    Sums own = Sums {0.0, 0.0};
    uint row = {};
    bool local = {};
    uint _e4 = batch.width;
    uint packs = _e4 / LANES;
    uint _e10 = batch.across;
    Lane _e11 = lane_of(group.x, thread_, _e10);
    if (_e11.column < packs) {
        Stored _e21 = x_1[_e11.column];
        Wide _e22 = widen(_e21);
        row = (group.y * _e11.lines) + _e11.line;
        bool loop_init_1 = true;
        while(true) {
            if (!loop_init_1) {
                uint _e50 = row;
                uint _e53 = batch.parts;
                row = _e50 + (_e53 * _e11.lines);
            }
            loop_init_1 = false;
            uint _e29 = row;
            uint _e32 = batch.rows;
            if (_e29 < _e32) {
            } else {
                break;
            }
            {
                uint _e35 = row;
                Stored _e40 = x_1[(_e35 * packs) + _e11.column];
                Wide _e41 = widen(_e40);
                Wide far = _e41 - _e22;
                Wide _e44 = own.a;
                own.a = _e44 + far;
                Wide _e47 = own.b;
                own.b = _e47 + (far * far);
            }
        }
    }
    Sums _e57 = own;
    uint _e60 = batch.across;
    Sums _e61 = over_lines(_e57, thread_, _e60, of_lines);
    if (_e11.line == 0u) {
        local = _e11.column < packs;
    } else {
        local = false;
    }
    bool _e70 = local;
    if (_e70) {
        sums_1[(group.y * packs) + _e11.column] = _e61.a;
        uint _e81 = batch.parts;
        sums_1[((_e81 + group.y) * packs) + _e11.column] = _e61.b;
        return;
    } else {
        return;
    }
}
