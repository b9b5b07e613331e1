// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

typedef metal::half4 Stored;
typedef metal::float4 Wide;
typedef metal::uint4 Index;
struct Dropout {
    uint count;
    uint low;
    uint high;
    uint threshold;
    float kept;
    uint pad0_;
    uint pad1_;
    uint pad2_;
};
typedef Stored type_3[1];
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

Index indices(
    uint start
) {
    return metal::uint4(start) + metal::uint4(0u, 1u, 2u, 3u);
}

Index splat(
    uint x_2
) {
    return metal::uint4(x_2);
}

Index mixed(
    Index bits
) {
    Index _e2 = splat(16u);
    Index _e6 = splat(2146121005u);
    Index first = (bits ^ (bits >> _e2)) * _e6;
    Index _e9 = splat(15u);
    Index _e13 = splat(2221713035u);
    Index second = (first ^ (first >> _e9)) * _e13;
    Index _e16 = splat(16u);
    return second ^ (second >> _e16);
}

struct f16x4_dropoutInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void f16x4_dropout(
  metal::uint3 id [[thread_position_in_grid]]
, metal::uint3 groups [[threadgroups_per_grid]]
, device type_3 const& x_3 [[buffer(0)]]
, device type_3& y [[buffer(1)]]
, constant Dropout& mask [[buffer(2)]]
) {
    uint i = {};
    i = id.x;
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            uint _e48 = i;
            i = _e48 + (groups.x * THREADS);
        }
        loop_init = false;
        uint _e4 = i;
        uint _e7 = mask.count;
        if (_e4 < (_e7 / LANES)) {
        } else {
            break;
        }
        {
            uint _e11 = i;
            Index _e14 = indices(_e11 * LANES);
            uint _e17 = mask.low;
            Index _e18 = splat(_e17);
            Index _e20 = mixed(_e14 ^ _e18);
            uint _e23 = mask.high;
            Index _e24 = splat(_e23);
            Index _e26 = mixed(_e20 + _e24);
            uint _e28 = i;
            uint _e33 = i;
            Stored _e35 = x_3[_e33];
            Wide _e36 = widen(_e35);
            float _e39 = mask.kept;
            uint _e43 = mask.threshold;
            Index _e44 = splat(_e43);
            Stored _e47 = narrow(metal::select(metal::float4(0.0), _e36 * _e39, _e26 >= _e44));
            y[_e28] = _e47;
        }
    }
    return;
}
