// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

typedef half Stored;
typedef float Wide;
typedef uint Index;
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
constant uint LANES = 1u;
constant uint THREADS = 256u;
constant float FAR_BELOW = -300000000000000000000000000000000000000.0;
constant uint NOWHERE = 4294967295u;

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

Index splat(
    uint x_2
) {
    return x_2;
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

struct f16x1_max_pool_backInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void f16x1_max_pool_back(
  metal::uint3 id [[thread_position_in_grid]]
, metal::uint3 groups [[threadgroups_per_grid]]
, device type_4 const& gradient [[buffer(0)]]
, device type_5 const& chosen [[buffer(1)]]
, device type_4& dx [[buffer(2)]]
, constant Picture& shape [[buffer(3)]]
) {
    uint at = {};
    float sum = {};
    uint r = {};
    uint t = {};
    uint _e4 = shape.channels;
    uint packs = _e4 / LANES;
    at = id.x;
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            uint _e115 = at;
            at = _e115 + (groups.x * THREADS);
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
            sum = 0.0;
            r = 0u;
            bool loop_init_1 = true;
            while(true) {
                if (!loop_init_1) {
                    uint _e108 = r;
                    r = _e108 + 1u;
                }
                loop_init_1 = false;
                uint _e29 = r;
                uint _e32 = shape.side;
                if (_e29 < _e32) {
                } else {
                    break;
                }
                {
                    uint _e35 = r;
                    uint _e38 = shape.padding;
                    uint _e41 = shape.stride;
                    uint _e44 = shape.to_height;
                    uint _e45 = window_of(_e24.y, _e35, _e38, _e41, _e44);
                    if (_e45 == NOWHERE) {
                        continue;
                    }
                    t = 0u;
                    bool loop_init_2 = true;
                    while(true) {
                        if (!loop_init_2) {
                            uint _e105 = t;
                            t = _e105 + 1u;
                        }
                        loop_init_2 = false;
                        uint _e50 = t;
                        uint _e53 = shape.side;
                        if (_e50 < _e53) {
                        } else {
                            break;
                        }
                        {
                            uint _e56 = t;
                            uint _e59 = shape.padding;
                            uint _e62 = shape.stride;
                            uint _e65 = shape.to_width;
                            uint _e66 = window_of(_e24.z, _e56, _e59, _e62, _e65);
                            if (_e66 == NOWHERE) {
                                continue;
                            }
                            uint _e72 = shape.to_height;
                            uint _e77 = shape.to_width;
                            uint window = (((_e24.x * _e72) + _e45) * _e77) + _e66;
                            uint _e81 = at;
                            uint number_1 = (window * packs) + (_e81 % packs);
                            float _e84 = sum;
                            Stored _e88 = gradient[number_1];
                            Wide _e89 = widen(_e88);
                            Index _e92 = chosen[number_1];
                            uint _e93 = r;
                            uint _e96 = shape.side;
                            uint _e98 = t;
                            Index _e100 = splat((_e93 * _e96) + _e98);
                            sum = _e84 + ((_e92 == _e100) ? _e89 : 0.0);
                        }
                    }
                }
            }
            uint _e111 = at;
            float _e113 = sum;
            Stored _e114 = narrow(_e113);
            dx[_e111] = _e114;
        }
    }
    return;
}
