// The sizes of a convolution or a pool, as `pictures.rs` hands them over.
#pragma once

struct Shape {
    int pictures, height, width, to_height, to_width, channels, outputs, kernel, stride, padding;
};
