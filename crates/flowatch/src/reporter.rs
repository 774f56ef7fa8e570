//! stub
use crate::plan::Plan; use engine::Progress; use engine::worker::Stop; use std::time::Duration;
pub(crate) struct Reporter; impl Reporter { pub(crate) fn new(_:&Plan,_:&Stop)->Self{Self} pub(crate) fn view_flows(&self)->usize{0} pub(crate) fn tick(&mut self,_:&Progress,_:Duration){} pub(crate) fn close(&mut self,_:&Progress,_:Duration){} }
