// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

typedef ushort Stored;
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
    return as_type<float>(static_cast<uint>(x) << 16u);
}

Stored narrow(
    Wide x_1
) {
    uint bits = as_type<uint>(x_1);
    uint rounded = ((bits + 32767u) + ((bits >> 16u) & 1u)) >> 16u;
    bool no_number = (bits & 2147483647u) > 2139095040u;
    return static_cast<ushort>(no_number ? 32704u : rounded);
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

struct bf16x1_max_poolInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void bf16x1_max_pool(
  metal::uint3 id [[thread_position_in_grid]]
, metal::uint3 groups [[threadgroups_per_grid]]
, device type_4 const& x_3 [[buffer(0)]]
, device type_4& y [[buffer(1)]]
, device type_5& chosen [[buffer(2)]]
, constant Picture& shape [[buffer(3)]]
) {
    uint at = {};
    float most = {};
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
            uint _e148 = at;
            at = _e148 + (groups.x * THREADS);
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
            most = -300000000000000000000000000000000000000.0;
            Index _e28 = splat(0u);
            tap = _e28;
            r = 0u;
            bool loop_init_1 = true;
            while(true) {
                if (!loop_init_1) {
                    uint _e137 = r;
                    r = _e137 + 1u;
                }
                loop_init_1 = false;
                uint _e32 = r;
                uint _e35 = shape.side;
                if (_e32 < _e35) {
                } else {
                    break;
                }
                {
                    uint _e40 = shape.stride;
                    uint _e42 = r;
                    uint row = (_e24.y * _e40) + _e42;
                    uint _e46 = shape.padding;
                    if (!((row < _e46))) {
                        uint _e53 = shape.height;
                        uint _e56 = shape.padding;
                        local = row >= (_e53 + _e56);
                    } else {
                        local = true;
                    }
                    bool _e60 = local;
                    if (_e60) {
                        continue;
                    }
                    t = 0u;
                    bool loop_init_2 = true;
                    while(true) {
                        if (!loop_init_2) {
                            uint _e134 = t;
                            t = _e134 + 1u;
                        }
                        loop_init_2 = false;
                        uint _e63 = t;
                        uint _e66 = shape.side;
                        if (_e63 < _e66) {
                        } else {
                            break;
                        }
                        {
                            uint _e71 = shape.stride;
                            uint _e73 = t;
                            uint column = (_e24.z * _e71) + _e73;
                            uint _e77 = shape.padding;
                            if (!((column < _e77))) {
                                uint _e84 = shape.width;
                                uint _e87 = shape.padding;
                                local_1 = column >= (_e84 + _e87);
                            } else {
                                local_1 = true;
                            }
                            bool _e91 = local_1;
                            if (_e91) {
                                continue;
                            }
                            uint _e95 = shape.height;
                            uint _e100 = shape.padding;
                            uint _e104 = shape.width;
                            uint _e109 = shape.padding;
                            uint pixel = (((((_e24.x * _e95) + row) - _e100) * _e104) + column) - _e109;
                            uint _e113 = at;
                            Stored _e117 = x_3[(pixel * packs) + (_e113 % packs)];
                            Wide _e118 = widen(_e117);
                            Index _e119 = tap;
                            uint _e120 = r;
                            uint _e123 = shape.side;
                            uint _e125 = t;
                            Index _e127 = splat((_e120 * _e123) + _e125);
                            float _e128 = most;
                            tap = (_e118 > _e128) ? _e127 : _e119;
                            float _e131 = most;
                            most = metal::max(_e131, _e118);
                        }
                    }
                }
            }
            uint _e140 = at;
            float _e142 = most;
            Stored _e143 = narrow(_e142);
            y[_e140] = _e143;
            uint _e145 = at;
            Index _e147 = tap;
            chosen[_e145] = _e147;
        }
    }
    return;
}
