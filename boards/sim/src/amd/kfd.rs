//! `/dev/kfd`, the render nodes and the topology in sysfs.
