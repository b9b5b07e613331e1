// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

typedef ushort Stored;
typedef float Wide;
struct type_3 {
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
typedef Stored type_4[1];
typedef Wide type_5[1];
constant uint LANES = 1u;
constant uint THREADS = 256u;
constant float FAR_BELOW = -300000000000000000000000000000000000000.0;
constant uint NO_FUNCTION = 4u;

Wide widen(
    Stored x
) {
    return as_type<float>(static_cast<uint>(x) << 16u);
}

Wide sigmoid(
    Wide x_1
) {
    return (x_1 > -80.0) ? (1.0 / (1.0 + metal::exp(-(metal::max(x_1, -80.0))))) : 0.0;
}

Wide below(
    Wide x_2
) {
    float z_1 = metal::min(metal::abs(x_2), 12.0) * 0.70710677;
    float t = 1.0 / (1.0 + (0.3275911 * z_1));
    float series = t * (0.2548296 + (t * (-0.28449672 + (t * (1.4214138 + (t * (-1.4531521 + (t * 1.0614054))))))));
    float tail = (metal::abs(x_2) < 12.0) ? ((0.5 * series) * metal::exp(-(z_1) * z_1)) : 0.0;
    return (x_2 > 0.0) ? (1.0 - tail) : tail;
}

Wide gate(
    Wide x_3
) {
    float near = metal::clamp(x_3, -12.0, 12.0);
    Wide _e10 = sigmoid(near * (1.5957692 + ((0.07135482 * near) * near)));
    return _e10;
}

Wide slope_at(
    Wide x_4,
    uint activation
) {
    if (activation == 0u) {
        Wide _e4 = sigmoid(x_4);
        return _e4 + ((metal::max(x_4, -80.0) * _e4) * (1.0 - _e4));
    }
    float near_1 = metal::clamp(x_4, -12.0, 12.0);
    if (activation == 1u) {
        Wide _e17 = below(x_4);
        return _e17 + ((near_1 * 0.3989423) * metal::exp((-0.5 * near_1) * near_1));
    }
    if (activation == 2u) {
        Wide _e28 = gate(x_4);
        return _e28 + (((near_1 * _e28) * (1.0 - _e28)) * (1.5957692 + ((0.21406446 * near_1) * near_1)));
    }
    return (x_4 > 0.0) ? 1.0 : 0.0;
}

Wide slope_of(
    Wide x_5,
    uint function
) {
    if (function == NO_FUNCTION) {
        return 1.0;
    }
    Wide _e5 = slope_at(x_5, function);
    return _e5;
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
    threadgroup type_3& of_lines
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

struct bf16x1_batch_slope_sumsInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void bf16x1_batch_slope_sums(
  metal::uint3 group [[threadgroup_position_in_grid]]
, uint thread_ [[thread_index_in_threadgroup]]
, threadgroup type_3& of_lines
, device type_4 const& gradient [[buffer(0)]]
, device type_4 const& x_6 [[buffer(1)]]
, device type_4 const& z [[buffer(2)]]
, device type_5 const& channels [[buffer(3)]]
, device type_5& sums_1 [[buffer(4)]]
, constant Batch& batch [[buffer(5)]]
) {
    Sums own = Sums {0.0, 0.0};
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
                uint _e87 = row;
                uint _e90 = batch.parts;
                row = _e87 + (_e90 * _e11.lines);
            }
            loop_init_1 = false;
            uint _e42 = row;
            uint _e45 = batch.rows;
            if (_e42 < _e45) {
            } else {
                break;
            }
            {
                uint _e47 = row;
                uint at_1 = (_e47 * packs) + _e11.column;
                Stored _e53 = x_6[at_1];
                Wide _e54 = widen(_e53);
                before = (_e54 * factor) + shift;
                uint _e60 = batch.has_residual;
                if (_e60 == 1u) {
                    Wide _e63 = before;
                    Stored _e66 = z[at_1];
                    Wide _e67 = widen(_e66);
                    before = _e63 + _e67;
                }
                Stored _e71 = gradient[at_1];
                Wide _e72 = widen(_e71);
                Wide _e73 = before;
                uint _e76 = batch.function;
                Wide _e77 = slope_of(_e73, _e76);
                Wide u = _e72 * _e77;
                Wide _e80 = own.a;
                own.a = _e80 + u;
                Wide _e83 = own.b;
                own.b = _e83 + (u * (_e54 - mean));
            }
        }
    }
    Sums _e94 = own;
    uint _e97 = batch.across;
    Sums _e98 = over_lines(_e94, thread_, _e97, of_lines);
    if (_e11.line == 0u) {
        local = _e11.column < packs;
    } else {
        local = false;
    }
    bool _e107 = local;
    if (_e107) {
        sums_1[(group.y * packs) + _e11.column] = _e98.a;
        uint _e118 = batch.parts;
        sums_1[((_e118 + group.y) * packs) + _e11.column] = _e98.b;
        return;
    } else {
        return;
    }
}
