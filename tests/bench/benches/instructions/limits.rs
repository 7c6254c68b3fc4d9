//! The most instructions that each benchmark may take; one more fails the bench.
//!
//! Where a goal names a number and it is reached, the goal is the limit. Else the limit is what was counted when the line
//! was last touched and a tenth of it more: a change that costs more is to be seen, and explained here. Lower a limit when
//! its count went down. Counts are for x86-64 with AVX2; they depend a little on the compiler and the C library.

/// P1: 12 instructions per pointer and 200 for the launch.
const fn pointers(n: u64) -> u64 {
    12 * n + 200
}

/// P1, 10 kernels with two pointers each. Counted 813; the goal is `pointers(20)`, 440.
pub(crate) const LAUNCH_10: u64 = 890;
/// P1, 1,000 kernels: the goal, 24,200. Counted 5,517 with shared inputs, 14,524 with distinct ones.
pub(crate) const LAUNCH_1000: u64 = pointers(2_000);
/// P3, nothing changed of inputs that all kernels share: the goal, a twentieth of P1's. Counted 262.
pub(crate) const UNCHANGED_SHARED_1000: u64 = LAUNCH_1000 / 20;
/// P3, nothing changed of 2,000 inputs: they are compared with those of the last launch. Counted 5,289.
pub(crate) const UNCHANGED_DISTINCT_1000: u64 = 5_810;
/// P1, a whole graph of 10 kernels: with the wait for its last launch, the timeline's next point, the ring's packet,
/// doorbell and kickoff. Counted 1,240 to 1,283; the goal is `pointers(20)`, 440.
pub(crate) const GRAPH_10: u64 = 1_410;
/// P1, a whole graph of 1,000 kernels: the goal, 24,200. Counted 5,987 with shared inputs, 15,209 with distinct ones.
pub(crate) const GRAPH_1000: u64 = pointers(2_000);
/// P3, a whole graph of which nothing changed but its point of the timeline. Counted 601 and 614, of which the
/// bench itself is some 60; the goal, a twentieth of P1's, is 1,210.
pub(crate) const GRAPH_UNCHANGED_SHARED: u64 = 675;
/// P3, the same with 2,000 inputs that are compared. Counted 5,639.
pub(crate) const GRAPH_UNCHANGED_DISTINCT: u64 = 6_200;
/// P4. Counted 601; the goal is 303, a third of what RADV takes for bind, push and dispatch.
pub(crate) const RECORD_EXEC: u64 = 660;
/// P4. Counted 889; the goal is 768, half of what RADV takes with a barrier.
pub(crate) const RECORD_GROUP: u64 = 980;
/// P4, PM4 of gfx1100: the goal, a third of RADV's 910 for bind, push and dispatch. Counted 270.
pub(crate) const AMD_PM4_EXEC: u64 = 303;
/// P4, PM4 of gfx1100: the goal, half of RADV's 1,536 with a barrier. Counted 557.
pub(crate) const AMD_PM4_GROUP: u64 = 768;
/// P4, AQL of gfx1100: the goal. Counted 222.
pub(crate) const AMD_AQL_EXEC: u64 = 303;
/// P4, AQL of gfx1100: the goal, half of RADV's 1,536 with a barrier. Counted 763.
pub(crate) const AMD_AQL_GROUP: u64 = 768;
/// P5: into the ring, up to and with the doorbell. Counted 178.
pub(crate) const SUBMIT_1: u64 = 200;
/// P5: sixteen packets. Counted 240.
pub(crate) const SUBMIT_16: u64 = 270;
/// P5: INDIRECT, the timeline's wait and signal, the doorbell. Counted 569.
pub(crate) const SUBMIT_BOUND: u64 = 626;
/// P5: the same through the library, with the call that wakes the worker, but not what the system
/// does in it. Counted 864.
pub(crate) const LIBRARY_BOUND: u64 = 950;
/// P6: one launch more in a recording of the library. Counted 1,332, of which some 90 are for devices whose launches
/// have descriptors.
pub(crate) const LIBRARY_EXEC: u64 = 1_470;
/// P6: the engine's poll that finds nothing. Counted 178.
pub(crate) const ENGINE_IDLE: u64 = 200;
/// P6: with one launch of one group of a kernel that does nothing. Counted 288.
pub(crate) const ENGINE_EXEC: u64 = 320;
/// P6: with sixteen launches. Counted 1,863.
pub(crate) const ENGINE_EXEC_16: u64 = 2_050;
/// A poll with one signal. Counted 454.
pub(crate) const ENGINE_SIGNAL: u64 = 500;
/// A poll with one wait that does not hold. Counted 455.
pub(crate) const ENGINE_WAIT: u64 = 500;
/// P4, NVIDIA, sm_86: a launch that follows nothing. Counted 487, of which 93 are copies of 608 bytes in all and about 80 are
/// what the caller hands over; the goal is 303.
pub(crate) const NV_EXEC: u64 = 510;
/// P4, NVIDIA: a launch that the one before starts. Counted 472; the goal is 303.
pub(crate) const NV_EXEC_CHAINED: u64 = 495;
/// P4, NVIDIA: with a wait, a barrier and a signal: the goal, half of RADV's 1,536. Counted 729.
pub(crate) const NV_GROUP: u64 = 768;
/// P1, NVIDIA: two pointers and a grid of each of 100 launches. Counted 8,885, of which some 1,000 compare, 1,200 check, and
/// nine or ten are a store; with 12 a pointer the goal would be 3,800.
pub(crate) const NV_PATCH_100: u64 = 9_150;
/// P5, NVIDIA: an entry, GPPut, the doorbell. Counted 161.
pub(crate) const NV_SUBMIT: u64 = 177;
/// P4, Adreno A630, ir3: a dispatch. Counted 341; the goal is 303.
pub(crate) const QCOM_EXEC: u64 = 375;
/// P4, Adreno: with a wait, a barrier and a signal. Counted 645; the goal is 768.
pub(crate) const QCOM_GROUP: u64 = 710;
/// P1, Adreno: two pointers and a grid of each of 100 dispatches. Counted 10,630, of which some 1,000 compare, 1,200 check, and
/// nine to thirteen are a store; with 12 a pointer the goal would be 3,800.
pub(crate) const QCOM_PATCH_100: u64 = 11_000;
/// P5, Adreno: a bound queue up to the call of the kernel driver. Counted 555.
pub(crate) const QCOM_SUBMIT: u64 = 610;
