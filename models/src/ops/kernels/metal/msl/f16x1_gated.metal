// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

typedef half Stored;
typedef float Wide;
struct Gated {
    uint count;
    uint activation;
    uint pad0_;
    uint pad1_;
};
typedef Stored type_2[1];
constant uint LANES = 1u;
constant uint THREADS = 256u;
constant float FAR_BELOW = -300000000000000000000000000000000000000.0;

Wide widen(
    Stored x
) {
    return static_cast<float>(x);
}

Stored narrow(
    Wide x_1
) {
    return static_cast<half>(x_1);
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

struct f16x1_gatedInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void f16x1_gated(
  metal::uint3 id [[thread_position_in_grid]]
, metal::uint3 groups [[threadgroups_per_grid]]
, device type_2 const& a [[buffer(0)]]
, device type_2 const& c [[buffer(1)]]
, device type_2& y [[buffer(2)]]
, constant Gated& sizes [[buffer(3)]]
) {
    uint i = {};
    i = id.x;
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            uint _e30 = i;
            i = _e30 + (groups.x * THREADS);
        }
        loop_init = false;
        uint _e4 = i;
        uint _e7 = sizes.count;
        if (_e4 < (_e7 / LANES)) {
        } else {
            break;
        }
        {
            uint _e12 = i;
            uint _e15 = i;
            Stored _e17 = a[_e15];
            Wide _e18 = widen(_e17);
            uint _e21 = sizes.activation;
            Wide _e22 = activated(_e18, _e21);
            uint _e24 = i;
            Stored _e26 = c[_e24];
            Wide _e27 = widen(_e26);
            Stored _e29 = narrow(_e22 * _e27);
            y[_e12] = _e29;
        }
    }
    return;
}
