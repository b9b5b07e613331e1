// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

typedef metal::uint2 Stored;
typedef metal::float4 Wide;
typedef uint type_2[1];
typedef float type_3[1];
struct Nf4_ {
    uint count;
    uint first;
    uint block;
    uint scales_of_group;
    float offset;
    uint pad0_;
    uint pad1_;
    uint pad2_;
};
typedef Stored type_4[1];
constant uint LANES = 4u;
constant uint THREADS = 256u;
constant float FAR_BELOW = -300000000000000000000000000000000000000.0;

Stored narrow(
    Wide x
) {
    metal::uint4 bits = as_type<metal::uint4>(x);
    metal::uint4 rounded = (bits + metal::uint4(32767u)) + ((bits >> metal::uint4(16u)) & metal::uint4(1u));
    metal::bool4 no_number = (bits & metal::uint4(2147483647u)) > metal::uint4(2139095040u);
    metal::uint4 upper = metal::select(rounded, metal::uint4(2143289344u), no_number);
    return Stored((upper.x >> 16u) | (upper.y & 4294901760u), (upper.z >> 16u) | (upper.w & 4294901760u));
}

float value_of(
    uint number,
    device type_2 const& codes,
    device type_3 const& pairs,
    constant Nf4_& sizes,
    device type_3 const& largest,
    device type_3 const& scale_values,
    device type_2 const& scale_codes
) {
    uint _e5 = codes[number / 8u];
    uint byte = (_e5 >> (((number / 2u) % 4u) * 8u)) & 255u;
    float value = pairs[(byte * 2u) + (number % 2u)];
    uint _e25 = sizes.block;
    uint block = number / _e25;
    uint _e29 = sizes.scales_of_group;
    if (_e29 == 0u) {
        float _e34 = largest[block];
        return value * _e34;
    }
    uint _e41 = scale_codes[block / 4u];
    float scale = scale_values[(_e41 >> ((block % 4u) * 8u)) & 255u];
    uint _e54 = sizes.scales_of_group;
    float _e57 = largest[block / _e54];
    float _e61 = sizes.offset;
    return value * ((scale * _e57) + _e61);
}

Wide values_from(
    uint number_1,
    device type_2 const& codes,
    device type_3 const& pairs,
    constant Nf4_& sizes,
    device type_3 const& largest,
    device type_3 const& scale_values,
    device type_2 const& scale_codes
) {
    float _e1 = value_of(number_1, codes, pairs, sizes, largest, scale_values, scale_codes);
    float _e4 = value_of(number_1 + 1u, codes, pairs, sizes, largest, scale_values, scale_codes);
    float _e7 = value_of(number_1 + 2u, codes, pairs, sizes, largest, scale_values, scale_codes);
    float _e10 = value_of(number_1 + 3u, codes, pairs, sizes, largest, scale_values, scale_codes);
    return Wide(_e1, _e4, _e7, _e10);
}

struct bf16x4_widen_codesInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void bf16x4_widen_codes(
  metal::uint3 id [[thread_position_in_grid]]
, metal::uint3 groups [[threadgroups_per_grid]]
, device type_2 const& codes [[buffer(0)]]
, device type_3 const& pairs [[buffer(1)]]
, constant Nf4_& sizes [[buffer(6)]]
, device type_3 const& largest [[buffer(4)]]
, device type_3 const& scale_values [[buffer(3)]]
, device type_2 const& scale_codes [[buffer(2)]]
, device type_4& y [[buffer(5)]]
) {
    uint i = {};
    i = id.x;
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            uint _e23 = i;
            i = _e23 + (groups.x * THREADS);
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
            uint _e16 = sizes.first;
            uint _e17 = i;
            Wide _e21 = values_from(_e16 + (_e17 * LANES), codes, pairs, sizes, largest, scale_values, scale_codes);
            Stored _e22 = narrow(_e21);
            y[_e12] = _e22;
        }
    }
    return;
}
