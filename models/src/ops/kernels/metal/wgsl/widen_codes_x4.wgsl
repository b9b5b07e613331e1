fn values_from(number: u32) -> Wide {
    return Wide(value_of(number), value_of(number + 1), value_of(number + 2), value_of(number + 3));
}
