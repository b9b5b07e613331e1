fn values_from(number: u32) -> Wide { return value_of(number); }
