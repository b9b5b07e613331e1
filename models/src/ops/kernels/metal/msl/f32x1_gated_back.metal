// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

typedef float Stored;
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

Wide slope_at(
    Wide x_6,
    uint activation_1
) {
    if (activation_1 == 0u) {
        Wide _e4 = sigmoid(x_6);
        return _e4 + ((metal::max(x_6, -80.0) * _e4) * (1.0 - _e4));
    }
    float near_1 = metal::clamp(x_6, -12.0, 12.0);
    if (activation_1 == 1u) {
        Wide _e17 = below(x_6);
        return _e17 + ((near_1 * 0.3989423) * metal::exp((-0.5 * near_1) * near_1));
    }
    if (activation_1 == 2u) {
        Wide _e28 = gate(x_6);
        return _e28 + (((near_1 * _e28) * (1.0 - _e28)) * (1.5957692 + ((0.21406446 * near_1) * near_1)));
    }
    return (x_6 > 0.0) ? 1.0 : 0.0;
}

struct f32x1_gated_backInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void f32x1_gated_back(
  metal::uint3 id [[thread_position_in_grid]]
, metal::uint3 groups [[threadgroups_per_grid]]
, device type_2 const& a [[buffer(0)]]
, device type_2 const& c [[buffer(1)]]
, device type_2 const& gradient [[buffer(2)]]
, device type_2& da [[buffer(3)]]
, device type_2& dc [[buffer(4)]]
, constant Gated& sizes [[buffer(5)]]
) {
    uint i = {};
    i = id.x;
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            uint _e45 = i;
            i = _e45 + (groups.x * THREADS);
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
            Stored _e14 = a[_e12];
            Wide _e15 = widen(_e14);
            uint _e17 = i;
            Stored _e19 = gradient[_e17];
            Wide _e20 = widen(_e19);
            uint _e22 = i;
            uint _e25 = i;
            Stored _e27 = c[_e25];
            Wide _e28 = widen(_e27);
            uint _e32 = sizes.activation;
            Wide _e33 = slope_at(_e15, _e32);
            Stored _e35 = narrow((_e20 * _e28) * _e33);
            da[_e22] = _e35;
            uint _e37 = i;
            uint _e41 = sizes.activation;
            Wide _e42 = activated(_e15, _e41);
            Stored _e44 = narrow(_e20 * _e42);
            dc[_e37] = _e44;
        }
    }
    return;
}
