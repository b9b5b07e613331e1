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

struct f32x4_max_poolInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void f32x4_max_pool(
  metal::uint3 id [[thread_position_in_grid]]
, metal::uint3 groups [[threadgroups_per_grid]]
, device type_4 const& x_3 [[buffer(0)]]
, device type_4& y [[buffer(1)]]
, device type_5& chosen [[buffer(2)]]
, constant Picture& shape [[buffer(3)]]
) {
    uint at = {};
    metal::float4 most = {};
    Index tap = {};
    uint r = {};
    bool local = {};
    uint t = {};
    bool local_1 = {};
    uint _e4 = shape.channels;
    uint packs = _e4 / LANES;
    at = id.x;
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            uint _e149 = at;
            at = _e149 + (groups.x * THREADS);
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
            uint _e20 = shape.to_height;
            uint _e23 = shape.to_width;
            metal::uint3 _e24 = apart(_e16 / packs, _e20, _e23);
            most = metal::float4(-300000000000000000000000000000000000000.0);
            Index _e29 = splat(0u);
            tap = _e29;
            r = 0u;
            bool loop_init_1 = true;
            while(true) {
                if (!loop_init_1) {
                    uint _e138 = r;
                    r = _e138 + 1u;
                }
                loop_init_1 = false;
                uint _e33 = r;
                uint _e36 = shape.side;
                if (_e33 < _e36) {
                } else {
                    break;
                }
                {
                    uint _e41 = shape.stride;
                    uint _e43 = r;
                    uint row = (_e24.y * _e41) + _e43;
                    uint _e47 = shape.padding;
                    if (!((row < _e47))) {
                        uint _e54 = shape.height;
                        uint _e57 = shape.padding;
                        local = row >= (_e54 + _e57);
                    } else {
                        local = true;
                    }
                    bool _e61 = local;
                    if (_e61) {
                        continue;
                    }
                    t = 0u;
                    bool loop_init_2 = true;
                    while(true) {
                        if (!loop_init_2) {
                            uint _e135 = t;
                            t = _e135 + 1u;
                        }
                        loop_init_2 = false;
                        uint _e64 = t;
                        uint _e67 = shape.side;
                        if (_e64 < _e67) {
                        } else {
                            break;
                        }
                        {
                            uint _e72 = shape.stride;
                            uint _e74 = t;
                            uint column = (_e24.z * _e72) + _e74;
                            uint _e78 = shape.padding;
                            if (!((column < _e78))) {
                                uint _e85 = shape.width;
                                uint _e88 = shape.padding;
                                local_1 = column >= (_e85 + _e88);
                            } else {
                                local_1 = true;
                            }
                            bool _e92 = local_1;
                            if (_e92) {
                                continue;
                            }
                            uint _e96 = shape.height;
                            uint _e101 = shape.padding;
                            uint _e105 = shape.width;
                            uint _e110 = shape.padding;
                            uint pixel = (((((_e24.x * _e96) + row) - _e101) * _e105) + column) - _e110;
                            uint _e114 = at;
                            Stored _e118 = x_3[(pixel * packs) + (_e114 % packs)];
                            Wide _e119 = widen(_e118);
                            Index _e120 = tap;
                            uint _e121 = r;
                            uint _e124 = shape.side;
                            uint _e126 = t;
                            Index _e128 = splat((_e121 * _e124) + _e126);
                            metal::float4 _e129 = most;
                            tap = metal::select(_e120, _e128, _e119 > _e129);
                            metal::float4 _e132 = most;
                            most = metal::max(_e132, _e119);
                        }
                    }
                }
            }
            uint _e141 = at;
            metal::float4 _e143 = most;
            Stored _e144 = narrow(_e143);
            y[_e141] = _e144;
            uint _e146 = at;
            Index _e148 = tap;
            chosen[_e146] = _e148;
        }
    }
    return;
}
