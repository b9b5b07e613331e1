// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

typedef metal::half4 Stored;
typedef metal::float4 Wide;
struct Halves {
    uint count;
    uint inner;
    uint activation;
    uint pad;
};
typedef Stored type_2[1];
constant uint LANES = 4u;
constant uint THREADS = 256u;
constant float FAR_BELOW = -300000000000000000000000000000000000000.0;

Wide widen(
    Stored x
) {
    return static_cast<metal::float4>(x);
}

Stored narrow(
    Wide x_1
) {
    return static_cast<metal::half4>(x_1);
}

Wide sigmoid(
    Wide x_2
) {
    return metal::select(metal::float4(0.0), metal::float4(1.0) / (metal::float4(1.0) + metal::exp(-(metal::max(x_2, metal::float4(-80.0))))), x_2 > metal::float4(-80.0));
}

Wide below(
    Wide x_3
) {
    metal::float4 z = metal::min(metal::abs(x_3), metal::float4(12.0)) * 0.70710677;
    metal::float4 t = metal::float4(1.0) / (metal::float4(1.0) + (0.3275911 * z));
    metal::float4 series = t * (metal::float4(0.2548296) + (t * (metal::float4(-0.28449672) + (t * (metal::float4(1.4214138) + (t * (metal::float4(-1.4531521) + (t * 1.0614054))))))));
    metal::float4 tail = metal::select(metal::float4(0.0), (0.5 * series) * metal::exp(-(z) * z), metal::abs(x_3) < metal::float4(12.0));
    return metal::select(tail, metal::float4(1.0) - tail, x_3 > metal::float4(0.0));
}

Wide gate(
    Wide x_4
) {
    metal::float4 near = metal::clamp(x_4, metal::float4(-12.0), metal::float4(12.0));
    Wide _e13 = sigmoid(near * (metal::float4(1.5957692) + ((0.07135482 * near) * near)));
    return _e13;
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
    return metal::max(x_5, metal::float4(0.0));
}

Wide slope_at(
    Wide x_6,
    uint activation_1
) {
    if (activation_1 == 0u) {
        Wide _e4 = sigmoid(x_6);
        return _e4 + ((metal::max(x_6, metal::float4(-80.0)) * _e4) * (metal::float4(1.0) - _e4));
    }
    metal::float4 near_1 = metal::clamp(x_6, metal::float4(-12.0), metal::float4(12.0));
    if (activation_1 == 1u) {
        Wide _e21 = below(x_6);
        return _e21 + ((near_1 * 0.3989423) * metal::exp((-0.5 * near_1) * near_1));
    }
    if (activation_1 == 2u) {
        Wide _e32 = gate(x_6);
        return _e32 + (((near_1 * _e32) * (metal::float4(1.0) - _e32)) * (metal::float4(1.5957692) + ((0.21406446 * near_1) * near_1)));
    }
    return metal::select(metal::float4(0.0), metal::float4(1.0), x_6 > metal::float4(0.0));
}

struct f16x4_halves_backInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void f16x4_halves_back(
  metal::uint3 id [[thread_position_in_grid]]
, metal::uint3 groups [[threadgroups_per_grid]]
, device type_2 const& both [[buffer(0)]]
, device type_2 const& gradient [[buffer(1)]]
, device type_2& y [[buffer(2)]]
, device type_2& d_both [[buffer(3)]]
, constant Halves& sizes [[buffer(4)]]
) {
    uint i = {};
    uint _e4 = sizes.inner;
    uint inner = _e4 / LANES;
    i = id.x;
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            uint _e58 = i;
            i = _e58 + (groups.x * THREADS);
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
            Stored _e23 = both[at];
            Wide _e24 = widen(_e23);
            uint _e27 = sizes.activation;
            Wide _e28 = activated(_e24, _e27);
            Stored _e32 = both[at + inner];
            Wide _e33 = widen(_e32);
            uint _e35 = i;
            Stored _e37 = gradient[_e35];
            Wide _e38 = widen(_e37);
            uint _e40 = i;
            Stored _e43 = narrow(_e28 * _e33);
            y[_e40] = _e43;
            uint _e49 = sizes.activation;
            Wide _e50 = slope_at(_e24, _e49);
            Stored _e52 = narrow((_e38 * _e33) * _e50);
            d_both[at] = _e52;
            Stored _e57 = narrow(_e38 * _e28);
            d_both[at + inner] = _e57;
        }
    }
    return;
}
