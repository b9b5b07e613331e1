// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

typedef metal::half4 Stored;
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
    uint function;
    uint has_residual;
    uint pad0_;
    uint pad1_;
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
    return static_cast<metal::float4>(x);
}

Wide sigmoid(
    Wide x_1
) {
    return metal::select(metal::float4(0.0), metal::float4(1.0) / (metal::float4(1.0) + metal::exp(-(metal::max(x_1, metal::float4(-80.0))))), x_1 > metal::float4(-80.0));
}

Wide below(
    Wide x_2
) {
    metal::float4 z_1 = metal::min(metal::abs(x_2), metal::float4(12.0)) * 0.70710677;
    metal::float4 t = metal::float4(1.0) / (metal::float4(1.0) + (0.3275911 * z_1));
    metal::float4 series = t * (metal::float4(0.2548296) + (t * (metal::float4(-0.28449672) + (t * (metal::float4(1.4214138) + (t * (metal::float4(-1.4531521) + (t * 1.0614054))))))));
    metal::float4 tail = metal::select(metal::float4(0.0), (0.5 * series) * metal::exp(-(z_1) * z_1), metal::abs(x_2) < metal::float4(12.0));
    return metal::select(tail, metal::float4(1.0) - tail, x_2 > metal::float4(0.0));
}

Wide gate(
    Wide x_3
) {
    metal::float4 near = metal::clamp(x_3, metal::float4(-12.0), metal::float4(12.0));
    Wide _e13 = sigmoid(near * (metal::float4(1.5957692) + ((0.07135482 * near) * near)));
    return _e13;
}

Wide slope_at(
    Wide x_4,
    uint activation
) {
    if (activation == 0u) {
        Wide _e4 = sigmoid(x_4);
        return _e4 + ((metal::max(x_4, metal::float4(-80.0)) * _e4) * (metal::float4(1.0) - _e4));
    }
    metal::float4 near_1 = metal::clamp(x_4, metal::float4(-12.0), metal::float4(12.0));
    if (activation == 1u) {
        Wide _e21 = below(x_4);
        return _e21 + ((near_1 * 0.3989423) * metal::exp((-0.5 * near_1) * near_1));
    }
    if (activation == 2u) {
        Wide _e32 = gate(x_4);
        return _e32 + (((near_1 * _e32) * (metal::float4(1.0) - _e32)) * (metal::float4(1.5957692) + ((0.21406446 * near_1) * near_1)));
    }
    return metal::select(metal::float4(0.0), metal::float4(1.0), x_4 > metal::float4(0.0));
}

Wide slope_of(
    Wide x_5,
    uint function
) {
    if (function == NO_FUNCTION) {
        return metal::float4(1.0);
    }
    Wide _e6 = slope_at(x_5, function);
    return _e6;
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

struct f16x4_batch_slope_sumsInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void f16x4_batch_slope_sums(
  metal::uint3 group [[threadgroup_position_in_grid]]
, uint thread_ [[thread_index_in_threadgroup]]
, threadgroup type_2& of_lines
, device type_3 const& gradient [[buffer(0)]]
, device type_3 const& x_6 [[buffer(1)]]
, device type_3 const& z [[buffer(2)]]
, device type_4 const& channels [[buffer(3)]]
, device type_4& sums_1 [[buffer(4)]]
, constant Batch& batch [[buffer(5)]]
) {
    Sums own = Sums {metal::float4(0.0), metal::float4(0.0)};
    uint row = {};
    Wide before = {};
    bool local = {};
    uint _e4 = batch.width;
    uint packs = _e4 / LANES;
    uint _e10 = batch.across;
    Lane _e11 = lane_of(group.x, thread_, _e10);
    if (_e11.column < packs) {
        Wide mean = channels[_e11.column];
        Wide factor = channels[(3u * packs) + _e11.column];
        Wide shift = channels[(4u * packs) + _e11.column];
        row = (group.y * _e11.lines) + _e11.line;
        bool loop_init_1 = true;
        while(true) {
            if (!loop_init_1) {
                uint _e89 = row;
                uint _e92 = batch.parts;
                row = _e89 + (_e92 * _e11.lines);
            }
            loop_init_1 = false;
            uint _e44 = row;
            uint _e47 = batch.rows;
            if (_e44 < _e47) {
            } else {
                break;
            }
            {
                uint _e49 = row;
                uint at_1 = (_e49 * packs) + _e11.column;
                Stored _e55 = x_6[at_1];
                Wide _e56 = widen(_e55);
                before = (_e56 * factor) + shift;
                uint _e62 = batch.has_residual;
                if (_e62 == 1u) {
                    Wide _e65 = before;
                    Stored _e68 = z[at_1];
                    Wide _e69 = widen(_e68);
                    before = _e65 + _e69;
                }
                Stored _e73 = gradient[at_1];
                Wide _e74 = widen(_e73);
                Wide _e75 = before;
                uint _e78 = batch.function;
                Wide _e79 = slope_of(_e75, _e78);
                Wide u = _e74 * _e79;
                Wide _e82 = own.a;
                own.a = _e82 + u;
                Wide _e85 = own.b;
                own.b = _e85 + (u * (_e56 - mean));
            }
        }
    }
    Sums _e96 = own;
    uint _e99 = batch.across;
    Sums _e100 = over_lines(_e96, thread_, _e99, of_lines);
    if (_e11.line == 0u) {
        local = _e11.column < packs;
    } else {
        local = false;
    }
    bool _e109 = local;
    if (_e109) {
        sums_1[(group.y * packs) + _e11.column] = _e100.a;
        uint _e120 = batch.parts;
        sums_1[((_e120 + group.y) * packs) + _e11.column] = _e100.b;
        return;
    } else {
        return;
    }
}
