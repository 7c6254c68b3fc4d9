//! Submissions: what is executed, what is refused, time stamps.

use super::*;

#[test]
fn commands_are_executed_and_their_time_comes() {
    for name in ["a630", "a650", "a660"] {
        let mut rig = Rig::on(&format!("qcom-{name},seed=3"));
        let data = rig.buffer(PAGE, WRITE_COMBINED);
        let context = rig.context(PLAIN);
        let first = rig.submit(context, &[write(data.gpu, 5)]).expect("taken");
        let second = rig
            .submit(context, &[write(data.gpu + 8, 6)])
            .expect("taken");
        assert_eq!((first, second), (1, 2));
        assert_eq!(rig.wait(context, second, 10_000), Ok(0));
        assert_eq!((data.get(0), data.get(8)), (5, 6));
        assert_eq!(rig.timestamps(context), [2, 2, 2]);
        assert!(rig.machine.reports().is_empty());
    }
}
