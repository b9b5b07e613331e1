// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

typedef metal::uint2 Stored;
typedef metal::float4 Wide;
struct Rope {
    uint count;
    uint tokens;
    uint heads;
    uint width;
    uint half_;
    uint places;
    float direction;
    uint pad0_;
    uint from_row;
    uint from_token;
    uint from_head;
    uint pad1_;
    uint to_row;
    uint to_token;
    uint to_head;
    uint pad2_;
};
typedef Stored type_3[1];
typedef Wide type_4[1];
constant uint LANES = 4u;
constant uint THREADS = 256u;
constant float FAR_BELOW = -300000000000000000000000000000000000000.0;

Wide widen(
    Stored x
) {
    return as_type<metal::float4>(metal::uint4(x.x << 16u, x.x & 4294901760u, x.y << 16u, x.y & 4294901760u));
}

Stored narrow(
    Wide x_1
) {
    metal::uint4 bits = as_type<metal::uint4>(x_1);
    metal::uint4 rounded = (bits + metal::uint4(32767u)) + ((bits >> metal::uint4(16u)) & metal::uint4(1u));
    metal::bool4 no_number = (bits & metal::uint4(2147483647u)) > metal::uint4(2139095040u);
    metal::uint4 upper = metal::select(rounded, metal::uint4(2143289344u), no_number);
    return Stored((upper.x >> 16u) | (upper.y & 4294901760u), (upper.z >> 16u) | (upper.w & 4294901760u));
}

struct bf16x4_rotateInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void bf16x4_rotate(
  metal::uint3 id [[thread_position_in_grid]]
, metal::uint3 groups [[threadgroups_per_grid]]
, device type_3 const& x_2 [[buffer(0)]]
, device type_4 const& cosines [[buffer(1)]]
, device type_4 const& sines [[buffer(2)]]
, device type_3& y [[buffer(3)]]
, constant Rope& rope [[buffer(4)]]
) {
    uint at = {};
    uint _e4 = rope.half_;
    uint half_ = _e4 / LANES;
    uint _e9 = rope.width;
    uint each = (_e9 / LANES) - half_;
    at = id.x;
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            uint _e139 = at;
            at = _e139 + (groups.x * THREADS);
        }
        loop_init = false;
        uint _e15 = at;
        uint _e18 = rope.count;
        if (_e15 < (_e18 / LANES)) {
        } else {
            break;
        }
        {
            uint _e22 = at;
            uint i = _e22 % each;
            uint _e24 = at;
            uint _e28 = rope.heads;
            uint head = (_e24 / each) % _e28;
            uint _e30 = at;
            uint _e34 = rope.heads;
            uint _e38 = rope.tokens;
            uint token = ((_e30 / each) / _e34) % _e38;
            uint _e40 = at;
            uint _e44 = rope.heads;
            uint _e48 = rope.tokens;
            uint row = ((_e40 / each) / _e44) / _e48;
            uint _e52 = rope.from_row;
            uint _e56 = rope.from_token;
            uint _e61 = rope.from_head;
            uint first = (((row * _e52) + (token * _e56)) + (head * _e61)) / LANES;
            uint _e68 = rope.to_row;
            uint _e72 = rope.to_token;
            uint _e77 = rope.to_head;
            uint goal = (((row * _e68) + (token * _e72)) + (head * _e77)) / LANES;
            if (i >= half_) {
                Stored _e91 = x_2[(first + half_) + i];
                y[(goal + half_) + i] = _e91;
                continue;
            }
            uint _e94 = rope.tokens;
            uint _e99 = rope.places;
            uint angle = ((((row * _e94) + token) % _e99) * half_) + i;
            Wide c = cosines[angle];
            Wide _e108 = sines[angle];
            float _e111 = rope.direction;
            Wide s = _e108 * _e111;
            Stored _e116 = x_2[first + i];
            Wide _e117 = widen(_e116);
            Stored _e122 = x_2[(first + half_) + i];
            Wide _e123 = widen(_e122);
            Stored _e130 = narrow((_e117 * c) - (_e123 * s));
            y[goal + i] = _e130;
            Stored _e138 = narrow((_e123 * c) + (_e117 * s));
            y[(goal + half_) + i] = _e138;
        }
    }
    return;
}
