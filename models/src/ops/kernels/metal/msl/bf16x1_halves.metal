// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

typedef ushort Stored;
typedef float Wide;
struct Halves {
    uint count;
    uint inner;
    uint activation;
    uint pad;
};
typedef Stored type_2[1];
constant uint LANES = 1u;
constant uint THREADS = 256u;
constant float FAR_BELOW = -300000000000000000000000000000000000000.0;

Wide widen(
    Stored x
) {
    return as_type<float>(static_cast<uint>(x) << 16u);
}

Stored narrow(
    Wide x_1
) {
    uint bits = as_type<uint>(x_1);
    uint rounded = ((bits + 32767u) + ((bits >> 16u) & 1u)) >> 16u;
    bool no_number = (bits & 2147483647u) > 2139095040u;
    return static_cast<ushort>(no_number ? 32704u : rounded);
}

Wide sigmoid(
    Wide x_2
) {
    return (x_2 > -80.0) ? (1.0 / (1.0 + metal::exp(-(metal::max(x_2, -80.0))))) : 0.0;
}

Wide below(
    Wide x_3
) {
    float z = metal::min(metal::abs(x_3), 12.0) * 0.70710677;
    float t = 1.0 / (1.0 + (0.3275911 * z));
    float series = t * (0.2548296 + (t * (-0.28449672 + (t * (1.4214138 + (t * (-1.4531521 + (t * 1.0614054))))))));
    float tail = (metal::abs(x_3) < 12.0) ? ((0.5 * series) * metal::exp(-(z) * z)) : 0.0;
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

struct bf16x1_halvesInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void bf16x1_halves(
  metal::uint3 id [[thread_position_in_grid]]
, metal::uint3 groups [[threadgroups_per_grid]]
, device type_2 const& both [[buffer(0)]]
, device type_2& y [[buffer(1)]]
, constant Halves& sizes [[buffer(2)]]
) {
    uint i = {};
    uint _e4 = sizes.inner;
    uint inner = _e4 / LANES;
    i = id.x;
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            uint _e39 = i;
            i = _e39 + (groups.x * THREADS);
        }
        loop_init = false;
        uint _e9 = i;
        uint _e12 = sizes.count;
        if (_e9 < (_e12 / LANES)) {
        } else {
            break;
        }
        {
            uint _e16 = i;
            uint _e17 = i;
            uint at = _e16 + ((_e17 / inner) * inner);
            uint _e22 = i;
            Stored _e26 = both[at];
            Wide _e27 = widen(_e26);
            uint _e30 = sizes.activation;
            Wide _e31 = activated(_e27, _e30);
            Stored _e35 = both[at + inner];
            Wide _e36 = widen(_e35);
            Stored _e38 = narrow(_e31 * _e36);
            y[_e22] = _e38;
        }
    }
    return;
}
