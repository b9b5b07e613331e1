// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

typedef metal::float4 Stored;
typedef metal::float4 Wide;
struct Back {
    uint count;
    uint width;
    uint function;
    uint has_residual;
    uint wants_u;
    uint pad0_;
    uint pad1_;
    uint pad2_;
};
typedef Stored type_2[1];
typedef Wide type_3[1];
constant uint LANES = 4u;
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
    return metal::select(metal::float4(0.0), metal::float4(1.0) / (metal::float4(1.0) + metal::exp(-(metal::max(x_2, metal::float4(-80.0))))), x_2 > metal::float4(-80.0));
}

Wide below(
    Wide x_3
) {
    metal::float4 z_1 = metal::min(metal::abs(x_3), metal::float4(12.0)) * 0.70710677;
    metal::float4 t = metal::float4(1.0) / (metal::float4(1.0) + (0.3275911 * z_1));
    metal::float4 series = t * (metal::float4(0.2548296) + (t * (metal::float4(-0.28449672) + (t * (metal::float4(1.4214138) + (t * (metal::float4(-1.4531521) + (t * 1.0614054))))))));
    metal::float4 tail = metal::select(metal::float4(0.0), (0.5 * series) * metal::exp(-(z_1) * z_1), metal::abs(x_3) < metal::float4(12.0));
    return metal::select(tail, metal::float4(1.0) - tail, x_3 > metal::float4(0.0));
}

Wide gate(
    Wide x_4
) {
    metal::float4 near = metal::clamp(x_4, metal::float4(-12.0), metal::float4(12.0));
    Wide _e13 = sigmoid(near * (metal::float4(1.5957692) + ((0.07135482 * near) * near)));
    return _e13;
}

Wide slope_at(
    Wide x_5,
    uint activation
) {
    if (activation == 0u) {
        Wide _e4 = sigmoid(x_5);
        return _e4 + ((metal::max(x_5, metal::float4(-80.0)) * _e4) * (metal::float4(1.0) - _e4));
    }
    metal::float4 near_1 = metal::clamp(x_5, metal::float4(-12.0), metal::float4(12.0));
    if (activation == 1u) {
        Wide _e21 = below(x_5);
        return _e21 + ((near_1 * 0.3989423) * metal::exp((-0.5 * near_1) * near_1));
    }
    if (activation == 2u) {
        Wide _e32 = gate(x_5);
        return _e32 + (((near_1 * _e32) * (metal::float4(1.0) - _e32)) * (metal::float4(1.5957692) + ((0.21406446 * near_1) * near_1)));
    }
    return metal::select(metal::float4(0.0), metal::float4(1.0), x_5 > metal::float4(0.0));
}

Wide slope_of(
    Wide x_6,
    uint function
) {
    if (function == NO_FUNCTION) {
        return metal::float4(1.0);
    }
    Wide _e6 = slope_at(x_6, function);
    return _e6;
}

struct f32x4_batch_backInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void f32x4_batch_back(
  metal::uint3 id [[thread_position_in_grid]]
, metal::uint3 groups [[threadgroups_per_grid]]
, device type_2 const& gradient [[buffer(0)]]
, device type_2 const& x_7 [[buffer(1)]]
, device type_2 const& z [[buffer(2)]]
, device type_3 const& channels [[buffer(3)]]
, device type_3 const& slopes [[buffer(4)]]
, device type_2& dx [[buffer(5)]]
, device type_2& u [[buffer(6)]]
, constant Back& back [[buffer(7)]]
) {
    uint i = {};
    Wide before = {};
    uint _e4 = back.width;
    uint packs = _e4 / LANES;
    i = id.x;
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            uint _e90 = i;
            i = _e90 + (groups.x * THREADS);
        }
        loop_init = false;
        uint _e9 = i;
        uint _e12 = back.count;
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
            Wide factor = channels[(3u * packs) + column];
            Wide _e35 = channels[(4u * packs) + column];
            before = (_e22 * factor) + _e35;
            uint _e40 = back.has_residual;
            if (_e40 == 1u) {
                Wide _e43 = before;
                uint _e45 = i;
                Stored _e47 = z[_e45];
                Wide _e48 = widen(_e47);
                before = _e43 + _e48;
            }
            uint _e51 = i;
            Stored _e53 = gradient[_e51];
            Wide _e54 = widen(_e53);
            Wide _e55 = before;
            uint _e58 = back.function;
            Wide _e59 = slope_of(_e55, _e58);
            Wide along = _e54 * _e59;
            uint _e63 = back.wants_u;
            if (_e63 == 1u) {
                uint _e67 = i;
                Stored _e69 = narrow(along);
                u[_e67] = _e69;
            }
            uint _e71 = i;
            Wide _e79 = slopes[(2u * packs) + column];
            Wide _e87 = slopes[(3u * packs) + column];
            Stored _e89 = narrow(((along * factor) + (_e22 * _e79)) + _e87);
            dx[_e71] = _e89;
        }
    }
    return;
}
