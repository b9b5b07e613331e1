// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

typedef metal::uint2 Stored;
typedef metal::float4 Wide;
struct Picture {
    uint count;
    uint height;
    uint width;
    uint to_height;
    uint to_width;
    uint channels;
    uint side;
    uint stride;
    uint padding;
    uint pad0_;
    uint pad1_;
    uint pad2_;
};
typedef Stored type_5[1];
constant uint LANES = 4u;
constant uint THREADS = 256u;
constant float FAR_BELOW = -300000000000000000000000000000000000000.0;
constant uint NOWHERE = 4294967295u;

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

metal::uint3 apart(
    uint number,
    uint height,
    uint width
) {
    return metal::uint3((number / width) / height, (number / width) % height, number % width);
}

uint window_of(
    uint pixel,
    uint tap,
    uint padding,
    uint stride,
    uint windows
) {
    bool local = {};
    bool local_1 = {};
    uint padded = pixel + padding;
    if (!((padded < tap))) {
        local = ((padded - tap) % stride) != 0u;
    } else {
        local = true;
    }
    bool _e15 = local;
    if (!(_e15)) {
        local_1 = ((padded - tap) / stride) >= windows;
    } else {
        local_1 = true;
    }
    bool _e23 = local_1;
    if (_e23) {
        return NOWHERE;
    }
    return (padded - tap) / stride;
}

struct bf16x4_patches_backInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void bf16x4_patches_back(
  metal::uint3 id [[thread_position_in_grid]]
, metal::uint3 groups [[threadgroups_per_grid]]
, device type_5 const& rows [[buffer(0)]]
, device type_5& dx [[buffer(1)]]
, constant Picture& shape [[buffer(2)]]
) {
    uint at = {};
    metal::float4 sum = {};
    uint r = {};
    uint t = {};
    uint _e4 = shape.channels;
    uint packs = _e4 / LANES;
    uint _e9 = shape.side;
    uint _e12 = shape.side;
    uint taps = _e9 * _e12;
    at = id.x;
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            uint _e118 = at;
            at = _e118 + (groups.x * THREADS);
        }
        loop_init = false;
        uint _e16 = at;
        uint _e19 = shape.count;
        if (_e16 < (_e19 / LANES)) {
        } else {
            break;
        }
        {
            uint _e23 = at;
            uint _e27 = shape.height;
            uint _e30 = shape.width;
            metal::uint3 _e31 = apart(_e23 / packs, _e27, _e30);
            sum = metal::float4(0.0);
            r = 0u;
            bool loop_init_1 = true;
            while(true) {
                if (!loop_init_1) {
                    uint _e111 = r;
                    r = _e111 + 1u;
                }
                loop_init_1 = false;
                uint _e37 = r;
                uint _e40 = shape.side;
                if (_e37 < _e40) {
                } else {
                    break;
                }
                {
                    uint _e43 = r;
                    uint _e46 = shape.padding;
                    uint _e49 = shape.stride;
                    uint _e52 = shape.to_height;
                    uint _e53 = window_of(_e31.y, _e43, _e46, _e49, _e52);
                    if (_e53 == NOWHERE) {
                        continue;
                    }
                    t = 0u;
                    bool loop_init_2 = true;
                    while(true) {
                        if (!loop_init_2) {
                            uint _e108 = t;
                            t = _e108 + 1u;
                        }
                        loop_init_2 = false;
                        uint _e58 = t;
                        uint _e61 = shape.side;
                        if (_e58 < _e61) {
                        } else {
                            break;
                        }
                        {
                            uint _e64 = t;
                            uint _e67 = shape.padding;
                            uint _e70 = shape.stride;
                            uint _e73 = shape.to_width;
                            uint _e74 = window_of(_e31.z, _e64, _e67, _e70, _e73);
                            if (_e74 == NOWHERE) {
                                continue;
                            }
                            uint _e80 = shape.to_height;
                            uint _e85 = shape.to_width;
                            uint window = (((_e31.x * _e80) + _e53) * _e85) + _e74;
                            metal::float4 _e88 = sum;
                            uint _e91 = r;
                            uint _e94 = shape.side;
                            uint _e97 = t;
                            uint _e100 = at;
                            Stored _e104 = rows[((((window * taps) + (_e91 * _e94)) + _e97) * packs) + (_e100 % packs)];
                            Wide _e105 = widen(_e104);
                            sum = _e88 + _e105;
                        }
                    }
                }
            }
            uint _e114 = at;
            metal::float4 _e116 = sum;
            Stored _e117 = narrow(_e116);
            dx[_e114] = _e117;
        }
    }
    return;
}
