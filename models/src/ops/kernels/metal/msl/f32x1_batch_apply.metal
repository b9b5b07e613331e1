// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

typedef float Stored;
typedef float Wide;
struct Apply {
    uint count;
    uint width;
    uint function;
    uint has_residual;
};
typedef Stored type_2[1];
typedef Wide type_3[1];
constant uint LANES = 1u;
constant uint THREADS = 256u;
constant float FAR_BELOW = -300000000000000000000000000000000000000.0;
constant uint NO_FUNCTION = 4u;

Wide widen(
    Stored x
) {
    return x;
}

Stored narrow(
    Wide x_1
) {
    return x_1;
}

Wide sigmoid(
    Wide x_2
) {
    return (x_2 > -80.0) ? (1.0 / (1.0 + metal::exp(-(metal::max(x_2, -80.0))))) : 0.0;
}

Wide below(
    Wide x_3
) {
    float z_1 = metal::min(metal::abs(x_3), 12.0) * 0.70710677;
    float t = 1.0 / (1.0 + (0.3275911 * z_1));
    float series = t * (0.2548296 + (t * (-0.28449672 + (t * (1.4214138 + (t * (-1.4531521 + (t * 1.0614054))))))));
    float tail = (metal::abs(x_3) < 12.0) ? ((0.5 * series) * metal::exp(-(z_1) * z_1)) : 0.0;
    return (x_3 > 0.0) ? (1.0 - tail) : tail;
}

Wide gate(
    Wide x_4
) {
    float near = metal::clamp(x_4, -12.0, 12.0);
    Wide _e10 = sigmoid(near * (1.5957692 + ((0.07135482 * near) * near)));
    return _e10;
}

Wide activated(
    Wide x_5,
    uint activation
) {
    if (activation == 0u) {
        Wide _e4 = sigmoid(x_5);
        return x_5 * _e4;
    }
    if (activation == 1u) {
        Wide _e8 = below(x_5);
        return x_5 * _e8;
    }
    if (activation == 2u) {
        Wide _e12 = gate(x_5);
        return x_5 * _e12;
    }
    return metal::max(x_5, 0.0);
}

Wide applied(
    Wide x_6,
    uint function
) {
    if (function == NO_FUNCTION) {
        return x_6;
    }
    Wide _e4 = activated(x_6, function);
    return _e4;
}

struct f32x1_batch_applyInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void f32x1_batch_apply(
  metal::uint3 id [[thread_position_in_grid]]
, metal::uint3 groups [[threadgroups_per_grid]]
, device type_2 const& x_7 [[buffer(0)]]
, device type_2 const& z [[buffer(1)]]
, device type_3 const& channels [[buffer(2)]]
, device type_2& y [[buffer(3)]]
, constant Apply& apply [[buffer(4)]]
) {
    uint i = {};
    Wide before = {};
    uint _e4 = apply.width;
    uint packs = _e4 / LANES;
    i = id.x;
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            uint _e59 = i;
            i = _e59 + (groups.x * THREADS);
        }
        loop_init = false;
        uint _e9 = i;
        uint _e12 = apply.count;
        if (_e9 < (_e12 / LANES)) {
        } else {
            break;
        }
        {
            uint _e16 = i;
            uint column = _e16 % packs;
            uint _e19 = i;
            Stored _e21 = x_7[_e19];
            Wide _e22 = widen(_e21);
            Wide _e28 = channels[(3u * packs) + column];
            Wide _e35 = channels[(4u * packs) + column];
            before = (_e22 * _e28) + _e35;
            uint _e40 = apply.has_residual;
            if (_e40 == 1u) {
                Wide _e43 = before;
                uint _e45 = i;
                Stored _e47 = z[_e45];
                Wide _e48 = widen(_e47);
                before = _e43 + _e48;
            }
            uint _e51 = i;
            Wide _e53 = before;
            uint _e56 = apply.function;
            Wide _e57 = applied(_e53, _e56);
            Stored _e58 = narrow(_e57);
            y[_e51] = _e58;
        }
    }
    return;
}
