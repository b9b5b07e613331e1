// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

typedef half Stored;
typedef float Wide;
typedef uint Index;
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

Index indices(
    uint start
) {
    return start;
}

Index splat(
    uint x_2
) {
    return x_2;
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

struct f16x1_dropoutInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void f16x1_dropout(
  metal::uint3 id [[thread_position_in_grid]]
, metal::uint3 groups [[threadgroups_per_grid]]
, device type_2 const& x_3 [[buffer(0)]]
, device type_2& y [[buffer(1)]]
, constant Dropout& mask [[buffer(2)]]
) {
    uint i = {};
    i = id.x;
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            uint _e47 = i;
            i = _e47 + (groups.x * THREADS);
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
            uint _e32 = i;
            Stored _e34 = x_3[_e32];
            Wide _e35 = widen(_e34);
            float _e38 = mask.kept;
            uint _e42 = mask.threshold;
            Index _e43 = splat(_e42);
            Stored _e46 = narrow((_e26 >= _e43) ? (_e35 * _e38) : 0.0);
            y[_e28] = _e46;
        }
    }
    return;
}
