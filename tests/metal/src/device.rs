//! A device of Vulkan that runs kernels: a software one, or whatever the machine has.

use std::time::Instant;

use wgpu::*;

/// Bytes behind every buffer that no kernel may touch.
const GUARD: usize = 256;
const GUARD_BYTE: u8 = 0xa5;

/// A device and its queue.
pub struct Gpu {
    /// What the driver calls it.
    pub name: String,
    device: Device,
    queue: Queue,
}

/// What is bound at a slot.
pub enum Bound {
    /// Numbers, and how many bytes of them there are before the guard.
    Buffer(Buffer, usize),
    /// A structure by value.
    Values(Buffer),
}

impl Gpu {
    /// The first device of Vulkan that has what the kernels need: subgroups, f16 and 16-bit integers.
    ///
    /// Errors: a sentence when there is none.
    pub fn new() -> Result<Self, String> {
        let mut descriptor = InstanceDescriptor::new_without_display_handle();
        descriptor.backends = Backends::VULKAN;
        let instance = Instance::new(descriptor);
        let adapter =
            pollster::block_on(instance.request_adapter(&RequestAdapterOptions::default()))
                .map_err(|problem| format!("there is no Vulkan device: {problem}"))?;
        let wanted = DeviceDescriptor {
            required_features: Features::SUBGROUP | Features::SHADER_F16 | Features::SHADER_I16,
            required_limits: adapter.limits(),
            ..Default::default()
        };
        let (device, queue) =
            pollster::block_on(adapter.request_device(&wanted)).map_err(|it| it.to_string())?;
        Ok(Self {
            name: adapter.get_info().name,
            device,
            queue,
        })
    }

    /// Compiles a kernel with the same absence of checks that Metal gets.
    pub fn pipeline(&self, source: &str) -> ComputePipeline {
        let description = ShaderModuleDescriptor {
            label: None,
            source: ShaderSource::Wgsl(source.into()),
        };
        // Safety: kernels touch what they are bound only, which the guards behind buffers are there to find out.
        let module = unsafe {
            self.device
                .create_shader_module_trusted(description, ShaderRuntimeChecks::unchecked())
        };
        self.device
            .create_compute_pipeline(&ComputePipelineDescriptor {
                label: None,
                layout: None,
                module: &module,
                entry_point: None,
                compilation_options: PipelineCompilationOptions {
                    zero_initialize_workgroup_memory: false,
                    ..Default::default()
                },
                cache: None,
            })
    }

    /// A buffer with these bytes, and a guard behind them.
    pub fn buffer(&self, bytes: &[u8]) -> Bound {
        let usage = BufferUsages::STORAGE | BufferUsages::COPY_SRC | BufferUsages::COPY_DST;
        let mut all = bytes.to_vec();
        all.resize(bytes.len().next_multiple_of(16) + GUARD, GUARD_BYTE);
        let buffer = self.new_buffer(all.len(), usage);
        self.queue.write_buffer(&buffer, 0, &all);
        Bound::Buffer(buffer, bytes.len())
    }

    /// A structure of values, filled up to whole vectors.
    pub fn values(&self, bytes: &[u8]) -> Bound {
        let mut bytes = bytes.to_vec();
        bytes.resize(bytes.len().next_multiple_of(16), 0);
        let buffer = self.new_buffer(bytes.len(), BufferUsages::UNIFORM | BufferUsages::COPY_DST);
        self.queue.write_buffer(&buffer, 0, &bytes);
        Bound::Values(buffer)
    }

    fn new_buffer(&self, size: usize, usage: BufferUsages) -> Buffer {
        self.device.create_buffer(&BufferDescriptor {
            label: None,
            size: size as u64,
            usage,
            mapped_at_creation: false,
        })
    }

    /// Dispatches `times` times and waits; returns the seconds of one.
    ///
    /// Errors: the driver's words, where it lost the device.
    pub fn dispatch(
        &self,
        pipeline: &ComputePipeline,
        bound: &[Bound],
        groups: [u32; 2],
        times: usize,
    ) -> Result<f64, String> {
        let entries: Vec<_> = bound
            .iter()
            .enumerate()
            .map(|(index, it)| match it {
                Bound::Buffer(it, _) | Bound::Values(it) => BindGroupEntry {
                    binding: index as u32,
                    resource: it.as_entire_binding(),
                },
            })
            .collect();
        let group = self.device.create_bind_group(&BindGroupDescriptor {
            label: None,
            layout: &pipeline.get_bind_group_layout(0),
            entries: &entries,
        });
        let mut encoder = self.device.create_command_encoder(&Default::default());
        {
            let mut pass = encoder.begin_compute_pass(&Default::default());
            pass.set_pipeline(pipeline);
            pass.set_bind_group(0, &group, &[]);
            for _ in 0..times {
                pass.dispatch_workgroups(groups[0], groups[1], 1);
            }
        }
        let commands = encoder.finish();
        self.wait()?;
        let start = Instant::now();
        self.queue.submit([commands]);
        self.wait()?;
        Ok(start.elapsed().as_secs_f64() / times as f64)
    }

    fn wait(&self) -> Result<(), String> {
        let waited = self.device.poll(PollType::wait_indefinitely());
        waited.map(drop).map_err(|problem| problem.to_string())
    }

    /// The bytes of a buffer.
    ///
    /// Errors: a sentence where something was written behind it.
    pub fn read(&self, bound: &Bound) -> Result<Vec<u8>, String> {
        let Bound::Buffer(buffer, length) = bound else {
            return Err("values are not read".to_owned());
        };
        let copy = self.new_buffer(
            buffer.size() as usize,
            BufferUsages::MAP_READ | BufferUsages::COPY_DST,
        );
        let mut encoder = self.device.create_command_encoder(&Default::default());
        encoder.copy_buffer_to_buffer(buffer, 0, &copy, 0, buffer.size());
        self.queue.submit([encoder.finish()]);
        copy.map_async(MapMode::Read, .., |_| {});
        self.wait()?;
        let mut bytes = copy
            .get_mapped_range(..)
            .map_err(|it| it.to_string())?
            .to_vec();
        if bytes[*length..].iter().any(|it| *it != GUARD_BYTE) {
            return Err("something was written behind a buffer".to_owned());
        }
        bytes.truncate(*length);
        Ok(bytes)
    }
}
