// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

typedef metal::float4 Stored;
typedef metal::float4 Wide;
typedef metal::uint4 Index;
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
typedef Stored type_4[1];
typedef Index type_5[1];
constant uint LANES = 4u;
constant uint THREADS = 256u;
constant float FAR_BELOW = -300000000000000000000000000000000000000.0;
constant uint NOWHERE = 4294967295u;

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

Index splat(
    uint x_2
) {
    return metal::uint4(x_2);
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

struct f32x4_max_pool_backInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void f32x4_max_pool_back(
  metal::uint3 id [[thread_position_in_grid]]
, metal::uint3 groups [[threadgroups_per_grid]]
, device type_4 const& gradient [[buffer(0)]]
, device type_5 const& chosen [[buffer(1)]]
, device type_4& dx [[buffer(2)]]
, constant Picture& shape [[buffer(3)]]
) {
    uint at = {};
    metal::float4 sum = {};
    uint r = {};
    uint t = {};
    uint _e4 = shape.channels;
    uint packs = _e4 / LANES;
    at = id.x;
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            uint _e117 = at;
            at = _e117 + (groups.x * THREADS);
        }
        loop_init = false;
        uint _e9 = at;
        uint _e12 = shape.count;
        if (_e9 < (_e12 / LANES)) {
        } else {
            break;
        }
        {
            uint _e16 = at;
            uint _e20 = shape.height;
            uint _e23 = shape.width;
            metal::uint3 _e24 = apart(_e16 / packs, _e20, _e23);
            sum = metal::float4(0.0);
            r = 0u;
            bool loop_init_1 = true;
            while(true) {
                if (!loop_init_1) {
                    uint _e110 = r;
                    r = _e110 + 1u;
                }
                loop_init_1 = false;
                uint _e30 = r;
                uint _e33 = shape.side;
                if (_e30 < _e33) {
                } else {
                    break;
                }
                {
                    uint _e36 = r;
                    uint _e39 = shape.padding;
                    uint _e42 = shape.stride;
                    uint _e45 = shape.to_height;
                    uint _e46 = window_of(_e24.y, _e36, _e39, _e42, _e45);
                    if (_e46 == NOWHERE) {
                        continue;
                    }
                    t = 0u;
                    bool loop_init_2 = true;
                    while(true) {
                        if (!loop_init_2) {
                            uint _e107 = t;
                            t = _e107 + 1u;
                        }
                        loop_init_2 = false;
                        uint _e51 = t;
                        uint _e54 = shape.side;
                        if (_e51 < _e54) {
                        } else {
                            break;
                        }
                        {
                            uint _e57 = t;
                            uint _e60 = shape.padding;
                            uint _e63 = shape.stride;
                            uint _e66 = shape.to_width;
                            uint _e67 = window_of(_e24.z, _e57, _e60, _e63, _e66);
                            if (_e67 == NOWHERE) {
                                continue;
                            }
                            uint _e73 = shape.to_height;
                            uint _e78 = shape.to_width;
                            uint window = (((_e24.x * _e73) + _e46) * _e78) + _e67;
                            uint _e82 = at;
                            uint number_1 = (window * packs) + (_e82 % packs);
                            metal::float4 _e85 = sum;
                            Stored _e90 = gradient[number_1];
                            Wide _e91 = widen(_e90);
                            Index _e94 = chosen[number_1];
                            uint _e95 = r;
                            uint _e98 = shape.side;
                            uint _e100 = t;
                            Index _e102 = splat((_e95 * _e98) + _e100);
                            sum = _e85 + metal::select(metal::float4(0.0), _e91, _e94 == _e102);
                        }
                    }
                }
            }
            uint _e113 = at;
            metal::float4 _e115 = sum;
            Stored _e116 = narrow(_e115);
            dx[_e113] = _e116;
        }
    }
    return;
}
