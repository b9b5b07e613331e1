// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

typedef metal::float4 Stored;
typedef metal::float4 Wide;
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
constant uint LANES = 4u;
constant uint THREADS = 256u;
constant float FAR_BELOW = -300000000000000000000000000000000000000.0;
constant uint NO_FUNCTION = 4u;

Wide widen(
    Stored x
) {
    return x;
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
    Sums all = Sums {metal::float4(0.0), metal::float4(0.0)};
    uint at = {};
    of_lines.inner[thread_2] = sums.a;
    of_lines.inner[THREADS + thread_2] = sums.b;
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    at = thread_2 % across_1;
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            uint _e38 = at;
            at = _e38 + across_1;
        }
        loop_init = false;
        uint _e19 = at;
        if (_e19 < THREADS) {
        } else {
            break;
        }
        {
            Wide _e23 = all.a;
            uint _e25 = at;
            Wide _e27 = of_lines.inner[_e25];
            all.a = _e23 + _e27;
            Wide _e30 = all.b;
            uint _e33 = at;
            Wide _e36 = of_lines.inner[THREADS + _e33];
            all.b = _e30 + _e36;
        }
    }
    Sums _e40 = all;
    return _e40;
}

struct f32x4_batch_sumsInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void f32x4_batch_sums(
  metal::uint3 group [[threadgroup_position_in_grid]]
, uint thread_ [[thread_index_in_threadgroup]]
, threadgroup type_2& of_lines
, device type_3 const& x_1 [[buffer(0)]]
, device type_4& sums_1 [[buffer(1)]]
, constant Batch& batch [[buffer(2)]]
) {
    Sums own = Sums {metal::float4(0.0), metal::float4(0.0)};
    uint row = {};
    bool local = {};
    uint _e4 = batch.width;
    uint packs = _e4 / LANES;
    uint _e10 = batch.across;
    Lane _e11 = lane_of(group.x, thread_, _e10);
    if (_e11.column < packs) {
        Stored _e23 = x_1[_e11.column];
        Wide _e24 = widen(_e23);
        row = (group.y * _e11.lines) + _e11.line;
        bool loop_init_1 = true;
        while(true) {
            if (!loop_init_1) {
                uint _e52 = row;
                uint _e55 = batch.parts;
                row = _e52 + (_e55 * _e11.lines);
            }
            loop_init_1 = false;
            uint _e31 = row;
            uint _e34 = batch.rows;
            if (_e31 < _e34) {
            } else {
                break;
            }
            {
                uint _e37 = row;
                Stored _e42 = x_1[(_e37 * packs) + _e11.column];
                Wide _e43 = widen(_e42);
                Wide far = _e43 - _e24;
                Wide _e46 = own.a;
                own.a = _e46 + far;
                Wide _e49 = own.b;
                own.b = _e49 + (far * far);
            }
        }
    }
    Sums _e59 = own;
    uint _e62 = batch.across;
    Sums _e63 = over_lines(_e59, thread_, _e62, of_lines);
    if (_e11.line == 0u) {
        local = _e11.column < packs;
    } else {
        local = false;
    }
    bool _e72 = local;
    if (_e72) {
        sums_1[(group.y * packs) + _e11.column] = _e63.a;
        uint _e83 = batch.parts;
        sums_1[((_e83 + group.y) * packs) + _e11.column] = _e63.b;
        return;
    } else {
        return;
    }
}
