// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

typedef metal::float4 Stored;
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
typedef Stored type_4[1];
constant uint LANES = 4u;
constant uint THREADS = 256u;
constant float FAR_BELOW = -300000000000000000000000000000000000000.0;
constant uint NOWHERE = 4294967295u;

Stored narrow(
    Wide x
) {
    return x;
}

metal::uint3 apart(
    uint number,
    uint height,
    uint width
) {
    return metal::uint3((number / width) / height, (number / width) % height, number % width);
}

struct f32x4_patchesInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void f32x4_patches(
  metal::uint3 id [[thread_position_in_grid]]
, metal::uint3 groups [[threadgroups_per_grid]]
, device type_4 const& x_1 [[buffer(0)]]
, device type_4& rows [[buffer(1)]]
, constant Picture& shape [[buffer(2)]]
) {
    uint at = {};
    bool local = {};
    bool local_1 = {};
    bool local_2 = {};
    uint _e4 = shape.channels;
    uint packs = _e4 / LANES;
    uint _e9 = shape.side;
    uint _e12 = shape.side;
    uint taps = _e9 * _e12;
    at = id.x;
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            uint _e128 = at;
            at = _e128 + (groups.x * THREADS);
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
            uint tap = (_e23 / packs) % taps;
            uint _e26 = at;
            uint _e31 = shape.to_height;
            uint _e34 = shape.to_width;
            metal::uint3 _e35 = apart((_e26 / packs) / taps, _e31, _e34);
            uint _e39 = shape.stride;
            uint _e43 = shape.side;
            uint row = (_e35.y * _e39) + (tap / _e43);
            uint _e49 = shape.stride;
            uint _e53 = shape.side;
            uint column = (_e35.z * _e49) + (tap % _e53);
            uint _e58 = shape.padding;
            if (row >= _e58) {
                uint _e64 = shape.height;
                uint _e67 = shape.padding;
                local = row < (_e64 + _e67);
            } else {
                local = false;
            }
            bool _e71 = local;
            if (_e71) {
                uint _e76 = shape.padding;
                local_1 = column >= _e76;
            } else {
                local_1 = false;
            }
            bool _e79 = local_1;
            if (_e79) {
                uint _e84 = shape.width;
                uint _e87 = shape.padding;
                local_2 = column < (_e84 + _e87);
            } else {
                local_2 = false;
            }
            bool inside = local_2;
            if (!(inside)) {
                uint _e94 = at;
                Stored _e98 = narrow(metal::float4(0.0));
                rows[_e94] = _e98;
                continue;
            }
            uint _e102 = shape.height;
            uint _e107 = shape.padding;
            uint _e111 = shape.width;
            uint _e116 = shape.padding;
            uint pixel = (((((_e35.x * _e102) + row) - _e107) * _e111) + column) - _e116;
            uint _e119 = at;
            uint _e123 = at;
            Stored _e127 = x_1[(pixel * packs) + (_e123 % packs)];
            rows[_e119] = _e127;
        }
    }
    return;
}
