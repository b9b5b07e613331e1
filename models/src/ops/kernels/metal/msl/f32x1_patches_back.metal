// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

typedef float Stored;
typedef float Wide;
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
constant uint LANES = 1u;
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

struct f32x1_patches_backInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void f32x1_patches_back(
  metal::uint3 id [[thread_position_in_grid]]
, metal::uint3 groups [[threadgroups_per_grid]]
, device type_4 const& rows [[buffer(0)]]
, device type_4& dx [[buffer(1)]]
, constant Picture& shape [[buffer(2)]]
) {
    uint at = {};
    float sum = {};
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
            uint _e117 = at;
            at = _e117 + (groups.x * THREADS);
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
            sum = 0.0;
            r = 0u;
            bool loop_init_1 = true;
            while(true) {
                if (!loop_init_1) {
                    uint _e110 = r;
                    r = _e110 + 1u;
                }
                loop_init_1 = false;
                uint _e36 = r;
                uint _e39 = shape.side;
                if (_e36 < _e39) {
                } else {
                    break;
                }
                {
                    uint _e42 = r;
                    uint _e45 = shape.padding;
                    uint _e48 = shape.stride;
                    uint _e51 = shape.to_height;
                    uint _e52 = window_of(_e31.y, _e42, _e45, _e48, _e51);
                    if (_e52 == NOWHERE) {
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
                        uint _e57 = t;
                        uint _e60 = shape.side;
                        if (_e57 < _e60) {
                        } else {
                            break;
                        }
                        {
                            uint _e63 = t;
                            uint _e66 = shape.padding;
                            uint _e69 = shape.stride;
                            uint _e72 = shape.to_width;
                            uint _e73 = window_of(_e31.z, _e63, _e66, _e69, _e72);
                            if (_e73 == NOWHERE) {
                                continue;
                            }
                            uint _e79 = shape.to_height;
                            uint _e84 = shape.to_width;
                            uint window = (((_e31.x * _e79) + _e52) * _e84) + _e73;
                            float _e87 = sum;
                            uint _e90 = r;
                            uint _e93 = shape.side;
                            uint _e96 = t;
                            uint _e99 = at;
                            Stored _e103 = rows[((((window * taps) + (_e90 * _e93)) + _e96) * packs) + (_e99 % packs)];
                            Wide _e104 = widen(_e103);
                            sum = _e87 + _e104;
                        }
                    }
                }
            }
            uint _e113 = at;
            float _e115 = sum;
            Stored _e116 = narrow(_e115);
            dx[_e113] = _e116;
        }
    }
    return;
}
