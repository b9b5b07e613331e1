// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

typedef half Stored;
typedef float Wide;
struct type_3 {
    metal::float2 inner[64];
};
struct Place {
    uint thread_;
    uint lane;
    uint subgroup;
    uint subgroups;
};
struct Next {
    uint rows;
    uint heads;
    uint shared_by;
    uint width;
    uint row_apart;
    uint token_apart;
    uint head_apart;
    uint pad0_;
    float scale;
    float cap;
    uint pad1_;
    uint pad2_;
};
typedef Stored type_4[1];
typedef metal::uint2 type_6[1];
struct type_7 {
    float inner[256];
};
struct type_8 {
    Wide inner[256];
};
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

float total(
    Wide x_2
) {
    return x_2;
}

metal::float2 group_softmax(
    float largest_1,
    float sum_1,
    Place place,
    threadgroup type_3& of_subgroup
) {
    metal::float2 all_1 = {};
    uint i_2 = 1u;
    float unnamed = metal::simd_max(largest_1);
    float unnamed_1 = metal::simd_sum(sum_1 * metal::exp(largest_1 - unnamed));
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    if (place.lane == 0u) {
        of_subgroup.inner[place.subgroup] = metal::float2(unnamed, unnamed_1);
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    metal::float2 _e17 = of_subgroup.inner[0];
    all_1 = _e17;
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            uint _e47 = i_2;
            i_2 = _e47 + 1u;
        }
        loop_init = false;
        uint _e21 = i_2;
        if (_e21 < place.subgroups) {
        } else {
            break;
        }
        {
            uint _e25 = i_2;
            metal::float2 other = of_subgroup.inner[_e25];
            float _e29 = all_1.x;
            float top = metal::max(_e29, other.x);
            float _e33 = all_1.y;
            float _e35 = all_1.x;
            all_1 = metal::float2(top, (_e33 * metal::exp(_e35 - top)) + (other.y * metal::exp(other.x - top)));
        }
    }
    metal::float2 _e49 = all_1;
    return _e49;
}

float score(
    uint query_1,
    uint key,
    device type_4 const& q,
    device type_4 const& k,
    constant Next& next
) {
    float sum_2 = 0.0;
    uint i_3 = 0u;
    bool loop_init_1 = true;
    while(true) {
        if (!loop_init_1) {
            uint _e30 = i_3;
            i_3 = _e30 + 1u;
        }
        loop_init_1 = false;
        uint _e6 = i_3;
        uint _e9 = next.width;
        if (_e6 < (_e9 / LANES)) {
        } else {
            break;
        }
        {
            float _e13 = sum_2;
            uint _e15 = i_3;
            Stored _e18 = q[query_1 + _e15];
            Wide _e19 = widen(_e18);
            uint _e21 = i_3;
            Stored _e24 = k[key + _e21];
            Wide _e25 = widen(_e24);
            float _e27 = total(_e19 * _e25);
            sum_2 = _e13 + _e27;
        }
    }
    float _e32 = sum_2;
    float _e35 = next.scale;
    float z_1 = _e32 * _e35;
    float _e39 = next.cap;
    if (_e39 > 0.0) {
        float _e44 = next.cap;
        float _e47 = next.cap;
        return _e44 * metal::tanh(metal::clamp(z_1 / _e47, -15.0, 15.0));
    }
    return z_1;
}

struct f16x1_next_attentionInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void f16x1_next_attention(
  metal::uint3 group [[threadgroup_position_in_grid]]
, metal::uint3 groups [[threadgroups_per_grid]]
, uint thread_ [[thread_index_in_threadgroup]]
, uint lane [[thread_index_in_simdgroup]]
, uint subgroup [[simdgroup_index_in_threadgroup]]
, uint subgroups [[simdgroups_per_threadgroup]]
, threadgroup type_3& of_subgroup
, device type_4 const& q [[buffer(0)]]
, device type_4 const& k [[buffer(1)]]
, device type_4 const& v [[buffer(2)]]
, device type_6 const& runs [[buffer(3)]]
, device type_4& y [[buffer(4)]]
, constant Next& next [[buffer(5)]]
, threadgroup type_7& weights
, threadgroup type_8& parts
) {
    uint query = {};
    float largest = {};
    float all = {};
    float sum = {};
    uint first = {};
    float z = {};
    uint i = {};
    float result = {};
    uint i_1 = {};
    Place place_1 = Place {thread_, lane, subgroup, subgroups};
    uint _e9 = next.width;
    uint packs = _e9 / LANES;
    uint shares = THREADS / packs;
    uint column = thread_ % packs;
    uint share = thread_ / packs;
    query = group.x;
    bool loop_init_2 = true;
    while(true) {
        if (!loop_init_2) {
            uint _e177 = query;
            query = _e177 + groups.x;
        }
        loop_init_2 = false;
        uint _e18 = query;
        uint _e21 = next.rows;
        uint _e24 = next.heads;
        if (_e18 < (_e21 * _e24)) {
        } else {
            break;
        }
        {
            uint _e27 = query;
            uint _e30 = next.heads;
            uint row = _e27 / _e30;
            metal::uint2 run = runs[row];
            uint _e37 = next.row_apart;
            uint _e39 = query;
            uint _e42 = next.heads;
            uint _e46 = next.shared_by;
            uint _e50 = next.head_apart;
            uint start = ((row * _e37) + (((_e39 % _e42) / _e46) * _e50)) / LANES;
            largest = FAR_BELOW;
            all = 0.0;
            sum = 0.0;
            first = run.x;
            bool loop_init_3 = true;
            while(true) {
                if (!loop_init_3) {
                    uint _e144 = first;
                    first = _e144 + THREADS;
                }
                loop_init_3 = false;
                uint _e63 = first;
                if (_e63 < run.y) {
                } else {
                    break;
                }
                {
                    uint _e67 = first;
                    uint count = metal::min(run.y - _e67, THREADS);
                    z = FAR_BELOW;
                    if (thread_ < count) {
                        uint _e74 = query;
                        uint _e76 = first;
                        uint _e80 = next.token_apart;
                        float _e85 = score(_e74 * packs, start + (((_e76 + thread_) * _e80) / LANES), q, k, next);
                        z = _e85;
                    }
                    float _e86 = z;
                    metal::float2 _e91 = group_softmax(_e86, (thread_ < count) ? 1.0 : 0.0, place_1, of_subgroup);
                    float _e92 = largest;
                    float top_1 = metal::max(_e92, _e91.x);
                    float _e95 = largest;
                    float kept = metal::exp(_e95 - top_1);
                    float _e98 = all;
                    all = (_e98 * kept) + (_e91.y * metal::exp(_e91.x - top_1));
                    largest = top_1;
                    float _e108 = z;
                    weights.inner[thread_] = (thread_ < count) ? metal::exp(_e108 - top_1) : 0.0;
                    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
                    float _e114 = sum;
                    sum = _e114 * kept;
                    if (share < shares) {
                        i = share;
                        bool loop_init_4 = true;
                        while(true) {
                            if (!loop_init_4) {
                                uint _e142 = i;
                                i = _e142 + shares;
                            }
                            loop_init_4 = false;
                            uint _e118 = i;
                            if (_e118 < count) {
                            } else {
                                break;
                            }
                            {
                                float _e120 = sum;
                                uint _e122 = i;
                                float _e124 = weights.inner[_e122];
                                uint _e126 = first;
                                uint _e127 = i;
                                uint _e131 = next.token_apart;
                                Stored _e138 = v[(start + (((_e126 + _e127) * _e131) / LANES)) + column];
                                Wide _e139 = widen(_e138);
                                sum = _e120 + (_e124 * _e139);
                            }
                        }
                    }
                    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
                }
            }
            float _e149 = sum;
            parts.inner[thread_] = _e149;
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
            if (thread_ < packs) {
                result = 0.0;
                i_1 = 0u;
                bool loop_init_5 = true;
                while(true) {
                    if (!loop_init_5) {
                        uint _e166 = i_1;
                        i_1 = _e166 + 1u;
                    }
                    loop_init_5 = false;
                    uint _e155 = i_1;
                    if (_e155 < shares) {
                    } else {
                        break;
                    }
                    {
                        float _e157 = result;
                        uint _e159 = i_1;
                        Wide _e163 = parts.inner[(_e159 * packs) + thread_];
                        result = _e157 + _e163;
                    }
                }
                uint _e169 = query;
                float _e173 = result;
                float _e174 = all;
                Stored _e176 = narrow(_e173 / _e174);
                y[(_e169 * packs) + thread_] = _e176;
            }
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
        }
    }
    return;
}
